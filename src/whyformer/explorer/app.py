"""The ASGI application: the page, its files, explain requests, and downloads of recent results."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from io import BytesIO

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from whyformer.attribution import file_views
from whyformer.errors import InputError
from whyformer.explorer.catalogue import NO_SAMPLES, Catalogue, catalogue
from whyformer.explorer.explain_job import explain_job
from whyformer.explorer.explain_request import RELOAD
from whyformer.explorer.frame import frame_report
from whyformer.explorer.gate import HANDLERS, Gate, NotFoundError
from whyformer.explorer.job_queue import JobQueue
from whyformer.explorer.jobs import Job
from whyformer.explorer.limits import BusyError, Limits
from whyformer.explorer.page import page
from whyformer.explorer.request_body import RequestReader
from whyformer.explorer.result_cache import ResultCache
from whyformer.explorer.samples import read_samples
from whyformer.explorer.security import REPORT, check_origin
from whyformer.inputs.images import open_image

FILES = {
    "explorer.css": "text/css",
    "explorer.js": "text/javascript",
    "form.js": "text/javascript",
    "results.js": "text/javascript",
    "curve.js": "text/javascript",
    "samples.js": "text/javascript",
    "beside.js": "text/javascript",
    "favicon.svg": "image/svg+xml",
}
THUMBNAIL = 320  # pixels


@dataclass(frozen=True)
class Explorer:
    """What all requests share: the models, the limits, the jobs and the results."""

    offered: Catalogue
    limits: Limits
    hosts: frozenset[str]
    jobs: JobQueue
    results: ResultCache
    reader: RequestReader
    page: bytes


def create_app(
    models: Catalogue | Sequence[str] = (),
    *,
    data: str | None = None,
    limits: Limits | None = None,
    hosts: Sequence[str] = (),
) -> Starlette:
    """Return the explorer as an ASGI application, to serve or to mount under any path.

    Args:
        models: Folders or Hugging Face ids to offer with the bundled models.
        data: A dataset whose samples the page lists, as for `whyformer evaluate`, such as
            "csv:reviews.csv,text=review".
        limits: The limits of requests and jobs.
        hosts: Public names of the server, for example of a proxy or a Space. Requests that
            arrive under another name than these, an IP address or localhost are refused.

    Example:
        >>> app = create_app(hosts=["explorer.example.org"])
        >>> app.state.explorer.limits.running
        2
    """
    limits = limits or Limits()
    if isinstance(models, Catalogue):
        offered = models
    else:
        offered = catalogue(models, read_samples(data, limits.samples) if data else NO_SAMPLES)
    jobs = JobQueue(limits)
    explorer = Explorer(
        offered,
        limits,
        frozenset(host.lower() for host in hosts),
        jobs,
        ResultCache(limits),
        RequestReader(offered, limits),
        page(offered, limits),
    )

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        jobs.cancel_all()

    app = Starlette(
        routes=[
            Route("/", send_page),
            Route("/files/{name}", send_file),
            Route("/examples/{model:path}/{index}", send_example),
            Route("/results/{name}/report", send_report),
            Route("/results/{name}/why{suffix}", send_download),
            Route("/samples", send_samples),
            Route("/samples/{index}/image", send_sample_image),
            Route("/explain", explain, methods=["POST"]),
        ],
        middleware=[Middleware(Gate, hosts=explorer.hosts)],
        exception_handlers=HANDLERS,
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.explorer = explorer
    return app


async def send_page(request: Request) -> Response:
    """Return the page."""
    return Response(_explorer(request).page, media_type="text/html")


async def send_file(request: Request) -> Response:
    """Return one of the page's own files."""
    name = request.path_params["name"]
    if name not in FILES:
        raise NotFoundError("there is no such file")
    return Response(page_file(name), media_type=FILES[name])


async def send_example(request: Request) -> Response:
    """Return the image of an example."""
    model, index = request.path_params["model"], request.path_params["index"]
    number = _number(index, "there is no such example")
    image = _explorer(request).offered.example(model, number).image
    if image is None:
        raise InputError("this example has no image")
    return Response(image.read_bytes(), media_type="image/png")


async def send_samples(request: Request) -> Response:
    """Return some rows of the table of samples."""
    start = _number(request.query_params.get("start", "0"), "there are no such samples")
    explorer = _explorer(request)
    return JSONResponse(explorer.offered.samples.rows(start, explorer.limits.characters))


def send_sample_image(request: Request) -> Response:
    """Return the image of a sample, small."""
    index = _number(request.path_params["index"], "there is no such sample")
    image = open_image(_explorer(request).offered.samples.image(index), "RGB")
    image.thumbnail((THUMBNAIL, THUMBNAIL))
    content = BytesIO()
    image.save(content, "PNG")
    return Response(content.getvalue(), media_type="image/png")


def send_report(request: Request) -> Response:
    """Return a result as the page of the report's frame."""
    result = _explorer(request).results.get(request.path_params["name"])
    headers = {"Content-Security-Policy": REPORT}
    return Response(frame_report(result.page), media_type="text/html", headers=headers)


def send_download(request: Request) -> Response:
    """Return a result as a file."""
    suffix = request.path_params["suffix"]
    view = next((v for v in file_views().values() if v.suffix == suffix), None)
    if view is None:
        raise NotFoundError("there is no such file")
    content = _explorer(request).results.get(request.path_params["name"]).file(view.name)
    headers = {
        "Content-Security-Policy": REPORT,
        "Content-Disposition": f'attachment; filename="why{suffix}"',
    }
    return Response(content, media_type=view.media_type, headers=headers)


async def explain(request: Request) -> Response:
    """Explain, and stream the job's events."""
    explorer = _explorer(request)
    check_origin(request.headers, explorer.hosts)
    if request.headers.get("Content-Type") != "application/json":
        raise InputError("the request is not JSON", remedy=RELOAD)
    client = request.client.host if request.client else ""
    check_room = partial(explorer.jobs.check_room, client, upload=True)
    try:
        explorer.reader.check_length(request, check_room)
    except BusyError:  # who asks again and again does so less often
        await asyncio.sleep(explorer.limits.refusal)
        raise
    asked = await explorer.reader.read(request)
    work = explain_job(asked, explorer.results)
    return JobResponse(explorer.jobs.submit(work, client, asked.has_upload))


class JobResponse(StreamingResponse):
    """The events of a job, one JSON object per line; the job stops when the browser leaves."""

    def __init__(self, job: Job) -> None:
        super().__init__(_lines(job), media_type="application/x-ndjson")
        self._job = job

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until the job ends or the connection is closed."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._job.cancel()


async def _lines(job: Job) -> AsyncIterator[bytes]:
    async for event in job.events():
        yield json.dumps(event, allow_nan=False).encode() + b"\n"


def _number(text: str, says: str) -> int:
    """Return a number of an address; raise NotFoundError if it is none."""
    if not (text.isascii() and text.isdecimal() and len(text) < 8):
        raise NotFoundError(says)
    return int(text)


def _explorer(request: Request) -> Explorer:
    explorer: Explorer = request.app.state.explorer
    return explorer


@cache
def page_file(name: str) -> bytes:
    """Return one of the page's own files."""
    return resources.files("whyformer.explorer").joinpath(f"templates/{name}").read_bytes()

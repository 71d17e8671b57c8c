"""CLIP of open_clip that keeps its text encoder in a sub-module `text`."""

from whyformer.models.families.open_clip import declare_open_clip

open_clip_custom = declare_open_clip(
    "open_clip_custom", "CLIP of open_clip with a text encoder of its own", "CustomTextCLIP", "text"
)

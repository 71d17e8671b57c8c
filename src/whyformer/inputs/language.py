"""Whether a text looks English: by its letters and its most frequent words. No model, no download.

Words that are also frequent in English ("die", "was", "on") are left out of the other lists.
"""

from __future__ import annotations

import re
import unicodedata


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


ENGLISH = _set(
    "a about all also am an and are as at be been but by can could did die do does for from had "
    "has hat have he her his how i if in into is it its just like man me more most much my no "
    "not of on one only or our out really so some such than that the their them then there they "
    "this those to too up us very war was we well were what when which who why will with would "
    "you your"
)
OTHERS = {
    "German": _set(
        "aber alle als also am an auch auf aus bei bin das dass dem den der des die diese "
        "dieser dieses doch ein eine einem einen einer eines er es etwas für ganz gut haben hat "
        "hatte ich ihr im immer in ist ja kein keine man mehr mein meine mich mir mit nach "
        "nicht nichts noch nur oder sehr sein seine sich sie sind so um und uns viel vom von "
        "vor war was wenn wie wir wird wurde zu zum zur über"
    ),
    "French": _set(
        "au aux avec bien c'est ce ces cette comme dans de des du elle en est et fait il ils "
        "j'ai je la le les leur mais me moi mon n'ai n'est ne nous on ou où par pas plus pour "
        "qu'il que qui sans se ses son sont sur tout très un une vous à être"
    ),
    "Spanish": _set(
        "a al como con cuando de del desde el ella en entre es esta este está fue ha hay la las "
        "lo los me mi muy más nada ni no nos para pero por porque que qué se sin sobre su sus "
        "también todo un una uno y ya"
    ),
    "Italian": _set(
        "a al alla anche che chi come con cosa da dei del della delle di gli ha ho i il in io "
        "la le lo ma me mi molto nel nella no non per però più quando questa questo se si sono "
        "su sua suo tutto un una uno è"
    ),
    "Portuguese": _set(
        "a ao as com da das de do dos ela ele em era essa esse esta este está eu foi isso mais "
        "mas me muito na nas no nos não o os ou para pela pelo por quando que se sem seu sobre "
        "sua são também tem um uma é"
    ),
    "Dutch": _set(
        "aan als bij dan dat de deze dit een en er erg geen goed haar heb heeft het hij ik in "
        "is je kan maar me meer met mijn naar niet nog of ook op over te uit van voor waar was "
        "wat we werd wij wordt zeer zich zijn zo"
    ),
    "Swedish": _set(
        "alla att av bra de den det där en ett från för han har hon i inte jag kan med men min "
        "mycket när och också om på sig sin som så till var vi än är"
    ),
    "Danish or Norwegian": _set(
        "af at av de den der det du eller en er et for fra god han har hun i ikke jeg kan med "
        "meg meget men mig min og også om på seg sig skal som så til var veldig vi"
    ),
    "Polish": _set(
        "ale bardzo być był była było co czy dla do go i jak jest już które który mi mnie na "
        "nie o od po pod przez się są tak ten to tylko tym w we z za że"
    ),
    "Czech": _set(
        "a ale byl být co do i jak jako je jeho jsem jsou kde mi na ne není od pro při se si "
        "tak ten to už velmi za že"
    ),
    "Romanian": _set(
        "a al ale așa ce cu cum că de din este eu foarte la mai mi mult nu o pe pentru prin sau "
        "se sunt un una în și"
    ),
    "Hungarian": _set("a az csak de egy ez hogy igen is meg mert mint nagyon nem van volt és ő"),
    "Finnish": _set(
        "ei en erittäin että he hän ja joka kuin me mutta myös niin oli olla on se siitä tai "
        "tämä vain voi"
    ),
    "Turkish": _set(
        "ama bir bu da daha de değil en gibi her ile için kadar ki mi ne olarak ve ya çok"
    ),
    "Indonesian": _set(
        "ada adalah akan dan dari dengan di dia ini itu juga ke pada sangat saya tidak untuk yang"
    ),
    "Vietnamese": _set(
        "cho các có của không là một người những này phim rất trong tôi và với đã để"
    ),
}
# Parts of names, and words that English borrows: one of them alone says nothing.
WEAK = _set(
    "al bin con da de del della der des di du el go god gut la las le les los men min non over "
    "un van ve vi von über"
)
_WORD = re.compile(r"[^\W\d_]+(?:['\N{RIGHT SINGLE QUOTATION MARK}][^\W\d_]+)*")
_SAMPLE = 20_000  # characters that are looked at
_SHORTEST = 3  # letters of a word that can stand alone for a language, if all are in a-z


def foreign_reason(text: str) -> str | None:
    """Return why the text is probably not English, as "looks German"; None if it may be.

    Args:
        text: Any text. A few words without any frequent word give no reason.

    Example:
        >>> foreign_reason("Der Film ist nicht besonders gut")
        'looks German'
    """
    text = unicodedata.normalize("NFC", text[:_SAMPLE])
    letters = [one for one in text if one.isalpha()]
    latin = sum("LATIN" in unicodedata.name(one, "") for one in letters)
    if letters and latin < len(letters) / 2:
        return "has mostly letters that are not Latin"
    text = text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    words = [word.casefold() for word in _WORD.findall(text)]
    found = {language: _own_words(words, own) for language, own in OTHERS.items()}
    language = max(found, key=lambda one: len(found[one]))
    own = found[language]
    english = [word for word in words if word in ENGLISH and word not in OTHERS[language]]
    if len(own) > len(english) and (len(set(own)) > 1 or (own and not english and _strong(own[0]))):
        return f"looks {language}"
    return None


def _own_words(words: list[str], own: frozenset[str]) -> list[str]:
    """The words of one language's list that are not English too."""
    return [word for word in words if word in own and word not in ENGLISH and len(word) > 1]


def _strong(word: str) -> bool:
    """Whether one word alone is a sign of its language."""
    return word not in WEAK and (not word.isascii() or len(word) >= _SHORTEST)

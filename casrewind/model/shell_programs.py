"""Which programs a line of shell runs, by its text alone.

The danger prevented here: a person installs what nobody used. So a word counts only where a shell looks for a program: not in
quotes, in a heredoc, behind a redirection, as an assignment, or as a pattern of a `case`. A doubtful word counts as none.
"""

import re

_BUILTIN = frozenset({
    ".", ":", "[", "alias", "autoload", "bg", "bind", "break", "builtin", "caller", "cd", "command", "compgen", "complete",
    "continue", "declare", "dirs", "disown", "echo", "emulate", "enable", "eval", "exec", "exit", "export", "false", "fc", "fg",
    "float", "functions", "getopts", "hash", "help", "history", "integer", "jobs", "kill", "let", "limit", "local", "logout",
    "mapfile", "noglob", "popd", "print", "printf", "pushd", "pwd", "read", "readarray", "readonly", "rehash", "return", "set",
    "setopt", "shift", "shopt", "source", "suspend", "test", "times", "trap", "true", "type", "typeset", "ulimit", "umask",
    "unalias", "unset", "unsetopt", "wait", "whence", "where",
})  # fmt: skip
_GOES_ON = frozenset({"if", "then", "elif", "else", "fi", "while", "until", "do", "done", "!", "{", "}", "esac", "time", "coproc"})
"""Keywords behind which a command may stand."""
_HAS_WORDS = frozenset({"for", "select", "case", "in"})
"""Keywords behind which words stand, and no command."""
_RUNS_ANOTHER = frozenset({"command", "builtin", "exec", "env", "nohup", "nice", "sudo", "xargs", "timeout", "setsid", "stdbuf", "doas"})
"""What runs the program that its next word names, if that is no option."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}")
_SCRIPT_CHARACTERS = 20_000
"""Characters of a script that are read."""
_LETTER = re.compile(r"[A-Za-z]")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=")
_DURATION = re.compile(r"\d+(?:\.\d+)?[smhd]?")
_TOKEN = re.compile(
    r"""(?P<gap>[ \t\r]+|\\\n)|(?P<comment>(?<![^\s;&|(){}])\#[^\n]*)"""
    r"""|(?P<heredoc><<-?[ \t]*(?P<end>'[^'\n]*'|"[^"\n]*"|\\?[\w.-]+))|(?P<redirection>&>>?|\d*(?:<<<|<>|>>|>\||[<>]&?)(?!\())"""
    r"""|(?P<sum>\$?\(\()|(?P<open>[$<>]?\(|`)|(?P<close>\))|(?P<end_of_pattern>;;&?|;&)|(?P<operator>\|\||&&|\|&?|[;&\n])"""
    r"""|(?P<word>(?:\$\{[^}]{0,300}\}|\$'(?:\\.|[^'\\])*'|'[^']*(?:'|\Z)|"(?:\\.|[^"\\])*(?:"|\Z)|\\.|[^\s;&|()<>'"\\`$]|\$(?!\())+)""",
    re.DOTALL,
)


def find_programs(script: str) -> list[str]:
    """The names of the programs that a script of a POSIX shell, of bash or of zsh runs, each once, in order. What is named by a path, a
    builtin, a keyword and a function of the script are none."""
    reader = _Reader(script[:_SCRIPT_CHARACTERS])
    while reader.at < len(reader.script):
        reader.take_token()
    return [name for name in reader.found if name not in reader.functions]


class _Reader:
    """Reads a script token by token."""

    def __init__(self, script: str) -> None:
        self.script, self.at = script, 0
        self.found: dict[str, None] = {}
        self.functions: set[str] = set()
        self._is_at_command = True
        self._is_target = False  # the next word is the target of a redirection
        self._runs_another = False  # the word before runs what the next one names
        self._is_pattern = False
        self._cases = 0
        self._heredocs: list[str] = []
        self._last = ""  # the program of the word before, which may turn out to be a function's name

    def take_token(self) -> None:
        """Read one token."""
        token = _TOKEN.match(self.script, self.at)
        if token is None:
            self.at += 1
            return
        self.at, kind, text = token.end(), token.lastgroup, token[0]
        if token["heredoc"]:
            self._heredocs.append(token["end"].strip("'\"").removeprefix("\\"))
        elif kind == "redirection":
            self._is_target = True
        elif kind == "sum":
            self._skip_to("))")
        elif kind == "word":
            self._take_word(text)
        elif kind not in ("gap", "comment"):
            self._take_operator(kind or "", text)

    def _take_operator(self, kind: str, text: str) -> None:
        if text == "(" and self._last:
            self.functions.add(self._last)
        if text == "\n":
            self._skip_heredocs()
        if kind == "end_of_pattern" and self._cases:
            self._is_pattern = True
        elif kind == "close":
            self._is_pattern = False
        is_behind_group = kind == "close" and not self._cases and not self.script.endswith("()", 0, self.at)
        self._is_at_command = not (is_behind_group or self._is_pattern)
        self._is_target, self._runs_another, self._last = False, False, ""

    def _take_word(self, text: str) -> None:
        before, self._last = self._last, ""
        if self._is_target:
            self._is_target = False
        elif self._is_pattern:
            self._is_pattern = text != "esac"
            self._cases -= text == "esac"
        elif text == "in" and self._cases and (before == "case" or self._is_at_command):  # behind case $(x), a command may stand
            self._is_pattern = True
        elif before == "case":
            self._last = before
        elif self._is_at_command:
            self._take_word_of_command(text)

    def _take_word_of_command(self, text: str) -> None:
        if _ASSIGNMENT.match(text):
            if text.endswith("=") and self.script.startswith("(", self.at):
                self._skip_to(")")
            return
        if self._runs_another and _DURATION.fullmatch(text):
            return
        if text in _GOES_ON:
            self._cases -= text == "esac" and self._cases > 0
            return
        if text == "[[":
            self._skip_to("]]")
            self._is_at_command = False
            return
        if text == "function":
            start = self.at
            self._skip_to("{")
            self.functions.add(self.script[start : self.at].strip(" \t\n(){"))
            return
        if text in _HAS_WORDS:
            self._cases += text == "case"
            self._last = "case" if text == "case" else ""
        self._is_at_command = self._runs_another = text in _RUNS_ANOTHER
        if text not in _BUILTIN and text not in _HAS_WORDS and _NAME.fullmatch(text) and _LETTER.search(text):
            self.found.setdefault(text)
            self._last = text

    def _skip_to(self, end: str) -> None:
        at = self.script.find(end, self.at)
        self.at = len(self.script) if at < 0 else at + len(end)

    def _skip_heredocs(self) -> None:
        for end in self._heredocs:
            found = re.compile(rf"^\t*{re.escape(end)}[ \t\r]*$", re.MULTILINE).search(self.script, self.at)
            self.at = len(self.script) if found is None else min(found.end() + 1, len(self.script))
        self._heredocs.clear()

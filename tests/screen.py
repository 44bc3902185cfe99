#!/usr/bin/env python3
"""tests/screen.py COLUMNS ROWS FOLDER COMMAND... - run a command on a terminal of that size.

FOLDER/raw gets the bytes, FOLDER/frames every screen that was shown, each ended by a line "----",
and FOLDER/all what one could scroll back to at the end. With SCREEN_INTERRUPT=REGEX Ctrl-C is typed
when a screen matches it; with SCREEN_RESIZE=COLUMNS the width changes after a few screens. The exit
code is the command's.
"""
import fcntl
import os
import pty
import re
import struct
import sys
import termios


class Screen:
    """As much of a terminal as drover uses: wrapping, CR, LF, cursor up, erase; no colours."""

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.lines = [""]
        self.y = self.x = 0
        self.unknown = set()

    def put(self, letter):
        if self.x >= self.columns:  # wraps only when the next letter comes
            self.x = 0
            self.down()
        line = self.lines[self.y].ljust(self.x)
        self.lines[self.y] = line[:self.x] + letter + line[self.x + 1:]
        self.x += 1

    def down(self):
        self.y += 1
        if self.y == len(self.lines):
            self.lines.append("")

    def feed(self, text):
        """Returns what is left of an unfinished escape sequence."""
        at = 0
        while at < len(text):
            letter = text[at]
            if letter == "\033":
                match = re.compile(r"\033\[([?0-9;]*)([A-Za-z])").match(text, at)
                if not match:
                    return text[at:]
                self.escape(match.group(1), match.group(2))
                at = match.end()
                continue
            if letter == "\r":
                self.x = 0
            elif letter == "\n":
                self.down()
            elif letter == "\b":
                self.x = max(0, self.x - 1)
            elif letter == "\t":
                self.x = min(self.columns, (self.x // 8 + 1) * 8)
            else:
                self.put(letter)
            at += 1
        return ""

    def escape(self, numbers, kind):
        count = int(numbers) if numbers.isdigit() else 1
        if kind == "A":
            top = max(0, len(self.lines) - self.rows)  # what has scrolled off cannot be reached
            self.y = max(top, self.y - count)
        elif kind == "J" and numbers in ("", "0"):
            self.lines[self.y] = self.lines[self.y][:self.x]
            del self.lines[self.y + 1:]
        elif kind == "K" and numbers in ("", "0"):
            self.lines[self.y] = self.lines[self.y][:self.x]
        elif kind not in "mhl":
            self.unknown.add(numbers + kind)

    def shown(self):
        return "\n".join(line.rstrip() for line in self.lines[-self.rows:])


def set_size(fd, columns, rows):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def main():
    columns, rows, folder, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]
    pid, fd = pty.fork()
    if pid == 0:
        os.read(0, 1)  # until the size is set
        os.execvp(command[0], command)
    set_size(fd, columns, rows)
    attributes = termios.tcgetattr(fd)
    attributes[3] &= ~termios.ECHO
    termios.tcsetattr(fd, termios.TCSANOW, attributes)
    os.write(fd, b"\n")
    screen = Screen(columns, rows)
    raw, frames, left = b"", [], ""
    interrupt = os.environ.get("SCREEN_INTERRUPT")
    resize = os.environ.get("SCREEN_RESIZE")
    while True:
        try:
            part = os.read(fd, 65536)
        except OSError:
            break
        if not part:
            break
        raw += part
        left = screen.feed(left + part.decode(errors="replace"))
        frames.append(screen.shown())
        if interrupt and re.search(interrupt, frames[-1]):
            os.write(fd, b"\003")
            interrupt = None
        if resize and len(frames) > 3:
            set_size(fd, int(resize), rows)
            screen.columns = int(resize)
            resize = None
    _, status = os.waitpid(pid, 0)
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/raw", "wb") as file:
        file.write(raw)
    with open(f"{folder}/frames", "w", encoding="utf-8") as file:
        for frame in frames:
            file.write(frame + "\n----\n")
    with open(f"{folder}/all", "w", encoding="utf-8") as file:
        file.write("\n".join(line.rstrip() for line in screen.lines) + "\n")
    if screen.unknown:
        print(f"escape sequences that screen.py does not know: {sorted(screen.unknown)}")
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())

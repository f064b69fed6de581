package main

import (
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"
)

// A plainWriter writes text that cannot take hold of a terminal, whatever
// names strangers put into it: what is not printable, but ends of lines, becomes
// \u and its number. The logs of package slog escape the rest of ASCII
// themselves, and in JSON such a text stands for the same character.
type plainWriter struct {
	out io.Writer
	buf []byte
}

// Write takes whole lines. It is called by one goroutine at a time, as slog's
// handlers do.
func (w *plainWriter) Write(p []byte) (int, error) {
	clean := true
	for _, c := range p {
		if c >= 0x7f || c < ' ' && c != '\n' {
			clean = false
			break
		}
	}
	if clean {
		return w.out.Write(p)
	}
	w.buf = w.buf[:0]
	for rest := p; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		switch {
		case r == '\n' || r != utf8.RuneError && unicode.IsPrint(r):
			w.buf = append(w.buf, rest[:n]...)
		case r > 0xffff: // a pair of surrogates, as JSON has it
			r -= 0x10000
			w.buf = fmt.Appendf(w.buf, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			w.buf = fmt.Appendf(w.buf, `\u%04x`, r)
		}
		rest = rest[n:]
	}
	if _, err := w.out.Write(w.buf); err != nil {
		return 0, err
	}
	return len(p), nil
}

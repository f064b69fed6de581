package console

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"unicode"
	"unicode/utf8"
)

// A PlainWriter escapes text so that the text cannot control a terminal, even if it contains names
// that strangers have chosen. Each character that is not printable, except a line break, is written
// as \u and its number, as in JSON. Package slog itself escapes only the ASCII characters among them.
type PlainWriter struct {
	out io.Writer
	buf []byte
}

// NewPlainWriter returns a writer that escapes text, and writes the result to out.
func NewPlainWriter(out io.Writer) *PlainWriter { return &PlainWriter{out: out} }

// Write escapes and writes whole lines. Two goroutines must not call it at the same time; handlers of
// package slog never do.
func (w *PlainWriter) Write(p []byte) (int, error) {
	if !slices.ContainsFunc(p, func(c byte) bool { return c >= 0x7f || c < ' ' && c != '\n' }) {
		return w.out.Write(p)
	}
	w.buf = w.buf[:0]
	for rest := p; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		switch {
		case r == '\n' || r != utf8.RuneError && unicode.IsPrint(r):
			w.buf = append(w.buf, rest[:n]...)
		case r > 0xffff: // JSON writes such a character as a surrogate pair
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

// WriteJSON writes a value on a separate line, and escapes characters that could control a
// terminal.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(NewPlainWriter(w))
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

package console

import (
	"io"
	"log/slog"
	"unicode/utf8"
)

// NewLogger returns a logger that writes lines of text for people or, if json is set, JSON for
// programs. It drops records below the given level.
func NewLogger(out io.Writer, json bool, level slog.Level) *slog.Logger {
	out = NewPlainWriter(out)
	if json {
		return slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level, ReplaceAttr: forPrograms}))
	}
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level, ReplaceAttr: forPeople}))
}

// forPrograms changes attributes for JSON. It converts durations to seconds. JSON must be UTF-8, so
// forPrograms escapes a text that is not UTF-8, and marks that in the key: "file_escaped" in place
// of "file".
func forPrograms(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindDuration:
		a.Value = slog.Float64Value(a.Value.Duration().Seconds())
	case slog.KindString:
		if s := a.Value.String(); !utf8.ValidString(s) {
			return slog.String(a.Key+"_escaped", Visible(s))
		}
	}
	return a
}

// forPeople changes attributes for people: it writes rates with a unit.
func forPeople(_ []string, a slog.Attr) slog.Attr {
	if a.Key == "rate" && a.Value.Kind() == slog.KindInt64 {
		a.Value = slog.StringValue(FormatRate(a.Value.Int64()))
	}
	return a
}

package wire

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestStatus(t *testing.T) {
	for s, want := range map[Status]string{
		OK: "success", EOF: "end of file", Unsupported: "operation unsupported", FileExists: "file already exists",
		LinkLoop: "too many symbolic links", 16: "status 16", 22: "status 22", 1<<32 - 1: "status 4294967295",
	} {
		if got := s.String(); got != want {
			t.Errorf("%d: %s", uint32(s), got)
		}
	}
	for s := range Status(9) {
		if text := s.String(); text == "" || strings.HasPrefix(text, "status") {
			t.Errorf("%d: %s", uint32(s), text)
		}
	}
}

// TestStatusWithout tests STATUS packets of servers that send fewer fields than the draft requires.
func TestStatusWithout(t *testing.T) {
	for packet, want := range map[string]Reply{
		"\x00\x00\x00\x09\x65\x00\x00\x00\x01\x00\x00\x00\x02":                                                {Status: NoSuchFile},
		"\x00\x00\x00\x0d\x65\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x00":                                {Status: NoSuchFile},
		"\x00\x00\x00\x11\x65\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x04gone":                            {Status: NoSuchFile, Message: []byte("gone")},
		"\x00\x00\x00\x17\x65\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x04gone\x00\x00\x00\x02en":          {Status: NoSuchFile, Message: []byte("gone"), Language: []byte("en")},
		"\x00\x00\x00\x1a\x65\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x04gone\x00\x00\x00\x02en\x00 \x00": {Status: NoSuchFile, Message: []byte("gone"), Language: []byte("en")},
	} {
		got, err := ParseReply([]byte(packet))
		if err != nil || got.Type != TypeStatus || got.ID != 1 || got.Status != want.Status ||
			string(got.Message) != string(want.Message) || string(got.Language) != string(want.Language) {
			t.Errorf("%q: %+v, %v", packet, got, err)
		}
	}
}

func TestStatusError(t *testing.T) {
	for _, test := range []struct {
		status        Status
		message, want string
	}{
		{NoSuchFile, "", "server says no such file (status 2)"},
		{NoSuchFile, "No such file", "server says no such file (status 2)"},
		{Failure, "disk full", "server says failure: disk full (status 4)"},
		{77, "caf\u00e9", "server says status 77: caf\u00e9 (status 77)"},
		{Failure, "a\x1b]0;owned\x07\r\nlog: b\u202egnp\xff\u0085", "server says failure: a?]0;owned???log: b?gnp?? (status 4)"},
		{Failure, strings.Repeat("x", 5000), "server says failure: " + strings.Repeat("x", maxMessage) + " (status 4)"},
		{EOF, "", "server says end of file (status 1)"},
	} {
		p := Reply{Type: TypeStatus, Status: test.status, Message: []byte(test.message)}
		err := p.Err()
		var e *StatusError
		if !errors.As(err, &e) || err.Error() != test.want || e.Status != test.status || e.Message != test.message {
			t.Errorf("%d %.100q: %v", test.status, test.message, err)
		}
	}
	if err := (&Reply{Type: TypeStatus, Status: OK, Message: []byte("fine")}).Err(); err != nil {
		t.Error(err)
	}
	if err := (&Reply{Type: TypeHandle}).Err(); err != nil {
		t.Error(err)
	}
}

// TestStatusMessages sends messages that are too long, or not UTF-8.
func TestStatusMessages(t *testing.T) {
	for message, want := range map[string]string{
		"":                       "failure",
		"open a\xff\xfeb: no":    "open a?b: no",
		strings.Repeat("x", 300): strings.Repeat("x", maxMessage),
		strings.Repeat("x", maxMessage-1) + "\u00e9": strings.Repeat("x", maxMessage-1),
		strings.Repeat("\u20ac", 100):                strings.Repeat("\u20ac", maxMessage/3),
		strings.Repeat("\x80", 300):                  "?",
	} {
		p := mustParseReply(t, AppendStatus(nil, 1, Failure, message))
		if got := string(p.Message); got != want || !utf8.ValidString(got) {
			t.Errorf("%q: got %q", message, got)
		}
	}
}

package openssh

import (
	"io"
	"strings"
	"testing"
)

func TestPreface(t *testing.T) {
	for said, want := range map[string]string{
		"":                                      "",
		"Not allowed at this time\r\n":          "Not allowed at this time",
		"one\r\ntwo\x1b[2J\n":                   `one two\x1b[2J`,
		"SSH-2.0-haul\r\n":                      "",
		"welcome\r\nSSH-2.0-haul\r\nbinary\x00": "",
	} {
		w := &watched{Conn: nil}
		r := io.TeeReader(strings.NewReader(said), writerFunc(func(b []byte) { w.said.take(b) }))
		var one [1]byte
		for {
			if _, err := r.Read(one[:]); err != nil {
				break
			}
		}
		if got := w.said.words(); got != want {
			t.Errorf("%q: %q, want %q", said, got, want)
		}
	}
	var p preface
	for range 10 * maxPreface {
		p.take([]byte("x"))
	}
	if len(p.text) != maxPreface || p.words() != "" {
		t.Errorf("kept %d bytes", len(p.text))
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(b []byte) (int, error) {
	f(b)
	return len(b), nil
}

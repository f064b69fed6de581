package sftp

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// A writesStream contains requests, and records each write of replies.
type writesStream struct {
	io.Reader
	writes [][]byte
}

func (w *writesStream) Write(p []byte) (int, error) {
	w.writes = append(w.writes, bytes.Clone(p))
	return len(p), nil
}

// Answers that come before the first data are sent before it, within TCP's first flight. So a
// client that has sent all its requests at once need not wait for the data, which takes another
// round trip. Later answers are gathered as before.
func TestAnswersBeforeData(t *testing.T) {
	d := newDirectServer(t, nil)
	d.session(d.connect()).put("file", strings.Repeat("x", 64<<10))
	handle := string(make([]byte, handleSize))
	b := wire.AppendStat(wire.AppendInit(nil, 3), 1, "file")
	b = wire.AppendOpen(b, 2, "file", wire.OpenRead, wire.Attrs{})
	for id := range uint32(2) {
		b = wire.AppendRead(b, 3+id, handle, 0, 32<<10)
	}
	stream := &writesStream{Reader: bytes.NewReader(b)}
	if err := newSession(t.Context(), &d.connect().userConn, stream).serve(); err != nil {
		t.Fatal(err)
	}
	if len(stream.writes) != 2 {
		t.Fatalf("%d writes, want one of the first answers and one of the data", len(stream.writes))
	}
	if n := len(stream.writes[0]); n > firstFlight {
		t.Errorf("the first answers have %d bytes, and TCP sends %d at first", n, firstFlight)
	}
	var types []wire.Type
	for left := stream.writes[0]; len(left) > 0; {
		h, err := wire.ParseHeader(left[:wire.HeaderSize])
		if err != nil {
			t.Fatal(err)
		}
		types, left = append(types, h.Type), left[h.Size:]
	}
	if len(types) != 3 || types[0] != wire.TypeVersion || types[1] != wire.TypeAttrs || types[2] != wire.TypeHandle {
		t.Errorf("the first write has %v, want the answers to INIT, STAT and OPEN", types)
	}
	if n := len(stream.writes[1]); n < 64<<10 {
		t.Errorf("the second write has %d bytes, want all of the data", n)
	}
}

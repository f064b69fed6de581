package sftpclient

import (
	"bytes"
	"testing"
	"time"
)

// A slowReader takes its time over each read, as one does that is held back.
type slowReader struct {
	*bytes.Reader
	each func()
}

func (r slowReader) ReadAt(p []byte, off int64) (int, error) {
	time.Sleep(10 * time.Millisecond)
	r.each()
	return r.Reader.ReadAt(p, off)
}

// The record of an upload is updated on the way even if its source is so slow that there
// is always something to be read next.
func TestResumesSlowSources(t *testing.T) {
	withFakeServer(t, Config{RequestBytes: 32 << 10}, nil, func(t *testing.T, p *fakeServer, c *Client) {
		data := pattern(5<<20, 3)
		k := keeper(t, c, "f", int64(len(data)))
		reads, noted := 0, int64(0)
		r := slowReader{bytes.NewReader(data), func() {
			if reads++; reads == len(data)/(32<<10)/2 {
				k.record.mu.Lock()
				noted = k.record.marked
				k.record.mu.Unlock()
			}
		}}
		if n, err := k.FillFrom(t.Context(), r, 0, int64(len(data))); n != int64(len(data)) || err != nil {
			t.Errorf("FillFrom = %d, %v", n, err)
		}
		// One note may be under way, and so may what the client has read last.
		if want := int64(len(data)/2 - 2*keepLittle - 1<<20); noted < want {
			t.Errorf("half through, %d bytes are noted, want %d", noted, want)
		}
		if err := k.Commit(); err != nil {
			t.Error(err)
		}
		if !bytes.Equal(p.get(t, "f"), data) {
			t.Error("the file has other bytes")
		}
	})
}

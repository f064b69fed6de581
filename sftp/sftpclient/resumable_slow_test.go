package sftpclient

import (
	"bytes"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/store"
)

// A slowReader is slow at each read, like a reader with a rate limit.
type slowReader struct {
	*bytes.Reader
	each func()
}

func (r slowReader) ReadAt(p []byte, off int64) (int, error) {
	time.Sleep(10 * time.Millisecond)
	r.each()
	return r.Reader.ReadAt(p, off)
}

// The record of an upload is updated during the upload, even if its source is so slow that a read
// is always pending.
func TestResumesSlowSources(t *testing.T) {
	withFakeServer(t, Config{RequestBytes: 32 << 10}, nil, func(t *testing.T, p *fakeServer, c *Client) {
		data := pattern(5<<20, 3)
		k := keeper(t, c, "f", int64(len(data)))
		reads, noted := 0, int64(0)
		r := slowReader{bytes.NewReader(data), func() {
			if reads++; reads == len(data)/(32<<10)/2 {
				k.record.mu.Lock()
				noted = k.record.safe
				k.record.mu.Unlock()
			}
		}}
		if n, err := k.FillFrom(t.Context(), r, 0, int64(len(data))); n != int64(len(data)) || err != nil {
			t.Errorf("FillFrom = %d, %v", n, err)
		}
		// One record may be under way, and so may the data that the client has read last.
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

// On a slow path, an upload whose process is killed loses the data of the last seconds, but not
// the 32 MiB after which a record is written in any case.
func TestResumesSlowPaths(t *testing.T) {
	const size, killed = 8 << 20, 13 * time.Second
	for name, send := range map[string]func(k *resumableUpload, r *bytes.Reader) error{
		"at once": func(k *resumableUpload, r *bytes.Reader) error {
			_, err := k.FillFrom(k.ctx, r, 0, size)
			return err
		},
		"piece by piece": func(k *resumableUpload, r *bytes.Reader) error {
			_, err := io.CopyBuffer(io.NewOffsetWriter(k, 0), struct{ io.Reader }{r}, make([]byte, 32<<10))
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newFakeServer()
			p.link = netLink{latency: 10 * time.Millisecond, rate: 256 << 10}
			begin := func() (*Client, *resumableUpload) {
				c := p.client(t, Config{RequestBytes: 32 << 10, Memory: 64 << 10})
				u, err := c.Store("").Create(t.Context(), "f", store.Create{Size: size, Resume: "me", Source: "this"})
				if err != nil {
					t.Fatal(err)
				}
				return c, u.(*resumableUpload)
			}
			c, k := begin()
			time.AfterFunc(killed, func() { _ = c.Close() }) // it can record nothing after that
			if send(k, bytes.NewReader(pattern(size, 4))) == nil {
				t.Errorf("%s: it is not cut off", name)
			}
			next, again := begin()
			most := int64(killed/time.Second) * p.link.rate
			least := most - int64(recordTime/time.Second)*p.link.rate - recordLeast
			if n := again.Resumed(); n < least || n > most {
				t.Errorf("%s: %d bytes are there, want %d to %d", name, n, least, most)
			}
			_ = again.Discard()
			_ = next.Close()
			p.wait.Wait()
		})
	}
}

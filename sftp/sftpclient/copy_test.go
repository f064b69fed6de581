package sftpclient

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"
)

// Copies made by the server are complete, no matter in which sessions the files are open. Here the
// sources are open in the first session, and the new files in all of them.
func TestCloneAcrossSessions(t *testing.T) {
	withFakeServer(t, Config{Conns: 1, Sessions: 4}, func(p *fakeServer) { p.link.latency = 20 * time.Millisecond }, func(t *testing.T, p *fakeServer, c *Client) {
		ctx := t.Context()
		data := pattern(1<<20, 1)
		p.put(t, "f", data)
		p.put(t, "large", pattern(8<<20, 2))
		sources := make([]*File, 12)
		for i := range sources {
			f, err := c.Open(ctx, "f")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			sources[i] = f
		}
		large, err := c.Open(ctx, "large")
		if err != nil {
			t.Fatal(err)
		}
		defer large.Close()
		if _, err := io.Copy(io.Discard, large); err != nil {
			t.Fatal(err)
		}
		sessions, opened, read := c.measure().Sessions, p.count("OPEN"), p.count("READ")
		var copies sync.WaitGroup
		for i, src := range sources {
			copies.Go(func() {
				if n, err := c.copyFile(ctx, src, fmt.Sprint("g", i)); err != nil || n != int64(len(data)) {
					t.Errorf("copy %d: %d, %v", i, n, err)
				}
			})
		}
		copies.Wait()
		opened, read = p.count("OPEN")-opened, p.count("READ")-read
		for i := range sources {
			if got := p.get(t, fmt.Sprint("g", i)); !bytes.Equal(got, data) {
				t.Errorf("copy %d has other bytes", i)
			}
		}
		if sessions < 2 || opened <= len(sources) || read > 0 {
			t.Errorf("%d sessions; %d opens for %d copies, %d requests to read", sessions, opened, len(sources), read)
		}
	})
}

package sftp

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// A server that answers all but WRITE is given up after as many sessions as a file
// is opened in, and what was begun is let go of in bounded time.
func TestClientWritesNeverAnswered(t *testing.T) {
	for _, resume := range []string{"", "me"} {
		inClientWorld(t, ClientConfig{}, func(p *clientPeer) {
			p.conns = 8
			p.hook = func(s *clientSession, q wire.Request, _ []byte) ([]byte, bool) {
				return nil, q.Type == wire.TypeWrite
			}
		}, func(t *testing.T, p *clientPeer, c *Client) {
			began := time.Now()
			u, err := c.Store("/").Create(t.Context(), "f", store.Create{Size: 4 << 20, Resume: resume})
			t.Log(resume, "create", time.Since(began), err)
			if err == nil {
				_, err = u.(*upload).FillFrom(t.Context(), bytes.NewReader(make([]byte, 4<<20)), 0, 4<<20)
				t.Log("fill", time.Since(began), err)
				_ = u.Close()
			}
			took := time.Since(began)
			t.Log("end", took)
			if !errors.Is(err, ErrStalled) {
				t.Errorf("a server that answers no WRITE: %v", err)
			}
		})
	}
}

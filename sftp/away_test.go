package sftp

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/storetest"
)

// Pending reads of a client wait for unreachable files at the same time, and not one after the
// other.
func TestReadsOfFilesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delay = 20 * time.Second
		p := newTestSession(t, func(_ *Server, a *Account) {
			storetest.Put(t, a.Tree, "f", "content")
			a.Tree = &slowTree{Tree: brokenTree{a.Tree, store.ErrUnavailable}, delay: delay}
		})
		h := p.open("f", wire.OpenRead)
		for range 2 {
			began := time.Now()
			const reads = 64
			for range reads {
				p.send(wire.AppendRead(nil, p.n(), h, 0, 100))
			}
			for range reads {
				if r := p.reply(); r.Type != wire.TypeStatus || r.Status != wire.Failure {
					t.Errorf("%v with %v", r.Type, r.Status)
				}
			}
			if took := time.Since(began); took != delay {
				t.Errorf("%d reads took %v", reads, took)
			}
			time.Sleep(awayPause) // later reads then try again
		}
	})
}

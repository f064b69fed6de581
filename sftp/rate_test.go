package sftp

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/rate"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// A user's rate limits all of their connections together, in each direction, and does not affect
// others. The server's rate limits everything.
func TestRates(t *testing.T) {
	tests := []struct {
		name          string
		user, all     int64
		users, conns  int
		read          bool
		least, atMost time.Duration
	}{
		{"one reads", 256 << 10, 0, 1, 1, true, 8 * time.Second, 9 * time.Second},
		{"one writes", 256 << 10, 0, 1, 1, false, 8 * time.Second, 9 * time.Second},
		{"on several connections", 256 << 10, 0, 1, 4, true, 32 * time.Second, 36 * time.Second},
		{"two users", 256 << 10, 0, 2, 1, true, 8 * time.Second, 9 * time.Second},
		{"two users of a limited server", 256 << 10, 256 << 10, 2, 1, true, 16 * time.Second, 18 * time.Second},
		{"of a faster server", 256 << 10, 1 << 20, 2, 2, false, 16 * time.Second, 18 * time.Second},
		{"no limit", 0, 0, 2, 2, false, 0, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDirectServer(t, func(s *Server, _ *Account) { s.Rate = test.all })
				tree := d.account.Tree
				data := testBytes(2 << 20)
				f, err := tree.OpenFile(t.Context(), "file", store.Access{Write: true, Create: true})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := f.WriteAt([]byte(data), 0); err != nil {
					t.Fatal(err)
				}
				_ = f.Close()
				began := time.Now()
				var wg sync.WaitGroup
				for u := range test.users {
					d.account = &Account{User: string(rune('a' + u)), Tree: tree, Rate: test.user}
					for range test.conns {
						p := d.session(d.connect())
						wg.Go(func() {
							if test.read {
								p.wantFile("file", data)
								return
							}
							h := p.open("file", wire.OpenWrite)
							for off := 0; off < len(data); off += 128 << 10 {
								p.write(h, int64(off), data[off:off+128<<10])
							}
							p.close(h)
						})
					}
				}
				wg.Wait()
				if took := time.Since(began); took < test.least-rate.Burst || took > test.atMost {
					t.Errorf("it took %v, want %v to %v", took, test.least, test.atMost)
				}
			})
		})
	}
}

// At any low rate, a reader receives data in a steady flow, and a connection that waits for its turn
// does not count as idle.
func TestLowRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDirectServer(t, func(s *Server, a *Account) {
			a.Rate = 1000
			s.IdleTimeout = time.Minute
		})
		c := d.connect()
		defer c.watchIdle()()
		p := d.session(c)
		p.put("file", testBytes(100_000))
		h := p.open("file", wire.OpenRead)
		for off := int64(0); off < 100_000; {
			began := time.Now()
			s, status := p.read(h, off, maxData)
			if status != wire.OK || time.Since(began) > 10*time.Second {
				t.Fatalf("at %d: %v after %v", off, status, time.Since(began))
			}
			off += int64(len(s))
		}
		p.close(h)
	})
}

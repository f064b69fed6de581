//go:build linux

package interop

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	killRounds   = 3
	killClients  = 16
	killInFlight = killClients / 2 // uploads under way when the server is killed, at least
	killStored   = killClients     // and uploads acknowledged in that round before
)

// A server is killed amid uploads, as by a power cut that spares the kernel.
// Under each name there is then a whole file: the one that was acknowledged
// last, or the one that was on its way. The next server removes what is left
// of the others, while clients send again.
func TestKill(t *testing.T) {
	k := &killed{dir: t.TempDir()}
	for i := range killClients {
		k.clients = append(k.clients, &victim{name: fmt.Sprintf("k%d", i), stored: described(uint64(i), 10_000)})
		if err := os.WriteFile(filepath.Join(k.dir, k.clients[i].name), k.clients[i].stored, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for range killRounds {
		k.round(t)
	}
	left := k.unfinished(t)
	addr, d := serve(t, k.dir, "--upload", "overwrite")
	k.awaitDir(t, "no unfinished upload", func(n int) bool { return n == 0 })
	for _, c := range k.clients {
		p, err := newRawPeer(addr, scalePatience)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.get(c.name, options{block: 1428, window: 8})
		p.close()
		if err != nil || !bytes.Equal(got, c.stored) {
			t.Errorf("get %s after a restart: %d bytes of %d, %v", c.name, len(got), len(c.stored), err)
		}
	}
	t.Logf("the last server left %d unfinished uploads", left)
	if err := d.stop(); err != nil {
		t.Errorf("haul serve, told to end: %v", err)
	}
}

// killed is the directory of servers that are killed, and their clients.
type killed struct {
	dir     string
	clients []*victim
	count   uint64

	mu     sync.Mutex
	peers  map[*rawPeer]bool // at work now
	over   bool              // the server is dead, and nobody begins again
	stored int               // uploads acknowledged in this round
}

// A victim stores one file after the other, all under its name.
type victim struct {
	name   string
	stored []byte // acknowledged last
	sent   []byte // on its way when the server died
}

// round has a server at work, kills it, and looks at what it leaves.
func (k *killed) round(t *testing.T) {
	t.Helper()
	addr, d := serve(t, k.dir, "--upload", "overwrite")
	k.peers, k.over, k.stored = map[*rawPeer]bool{}, false, 0
	var all sync.WaitGroup
	var failed failures
	for _, c := range k.clients {
		all.Go(func() {
			for {
				p, err := newRawPeer(addr, scalePatience)
				if err != nil {
					failed.add(err)
					return
				}
				if !k.begin(p) {
					return
				}
				c.sent = k.content()
				err = p.put(c.name, c.sent, options{block: 1428, window: 8}, int64(len(c.sent)))
				switch over := k.end(p, err); {
				case err == nil:
					c.stored = c.sent
				case over:
					return
				default:
					failed.add(err)
					return
				}
			}
		})
	}
	k.awaitDir(t, "uploads under way, and some stored", func(n int) bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return n >= killInFlight && k.stored >= killStored || failed.any()
	})
	if err := syscall.Kill(d.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-d.done
	k.disturb()
	all.Wait()
	if failed.report(t) {
		t.FailNow()
	}
	if k.unfinished(t) == 0 {
		t.Error("no unfinished upload was left: the server was not killed amid any")
	}
	k.check(t)
}

// content returns a file that was never sent before.
func (k *killed) content() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.count++
	return described(1000+k.count, 100_000+int(k.count%50)*10_000)
}

// begin notes a peer at work, or closes it if it is too late.
func (k *killed) begin(p *rawPeer) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over {
		p.close()
		return false
	}
	k.peers[p] = true
	return true
}

// end notes the end of a peer's work, and reports whether the server is dead.
func (k *killed) end(p *rawPeer, err error) (over bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.peers, p)
	p.close()
	if err == nil {
		k.stored++
	}
	return k.over
}

// disturb has the peers end, since nobody is going to answer them.
func (k *killed) disturb() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.over = true
	for p := range k.peers {
		p.close()
	}
}

// check compares what is under the names with what was sent.
func (k *killed) check(t *testing.T) {
	t.Helper()
	for _, c := range k.clients {
		got, err := os.ReadFile(filepath.Join(k.dir, c.name))
		switch {
		case err != nil:
			t.Error(err)
		case bytes.Equal(got, c.stored):
		case bytes.Equal(got, c.sent):
			c.stored = c.sent // published, and the word of it was lost
		default:
			t.Errorf("%s: %d bytes are neither the %d acknowledged nor the %d on their way: %v",
				c.name, len(got), len(c.stored), len(c.sent), whole(got))
		}
	}
}

// unfinished counts the hidden files of uploads.
func (k *killed) unfinished(t *testing.T) int {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(k.dir, ".haul-*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// awaitDir waits until the number of hidden files is as wanted.
func (k *killed) awaitDir(t *testing.T, what string, wanted func(int) bool) {
	t.Helper()
	for end := time.Now().Add(scalePatience); !wanted(k.unfinished(t)); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s; there are %d", scalePatience, what, k.unfinished(t))
		}
	}
}

package webclient

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/pipelisten"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/web"
)

// A restartableServer is a web server inside a synctest bubble that can be killed, and restarted
// after a while.
type restartableServer struct {
	*lab
	listener *pipelisten.Listener
	server   *http.Server

	mu     sync.Mutex
	open   []net.Conn  // the server's ends of connections; guarded by mu
	down   bool        // guarded by mu
	dials  []time.Time // the times of dials while it was down; guarded by mu
	pauses []time.Duration
}

// startRestartable serves files as startLab does.
func startRestartable(t *testing.T, files map[string][]byte) *restartableServer {
	t.Helper()
	m := &restartableServer{lab: newLab(t, files), listener: pipelisten.New()}
	m.server = &http.Server{Handler: m.lab}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = m.server.Serve(m.listener) // until it is closed
	}()
	t.Cleanup(func() {
		_ = m.server.Close()
		<-served
	})
	return m
}

// dial connects to the server, or is refused as by a closed port.
func (m *restartableServer) dial(context.Context, string, string) (net.Conn, error) {
	m.mu.Lock()
	if m.down {
		defer m.mu.Unlock()
		m.dials = append(m.dials, time.Now())
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	here, there := net.Pipe()
	m.open = append(m.open, there)
	m.mu.Unlock()
	m.listener.Conns <- there
	return here, nil
}

// kill closes all connections, and keeps the server down for a time; 0 means for ever.
func (m *restartableServer) kill(d time.Duration) {
	m.mu.Lock()
	m.down = true
	open := m.open
	m.open = nil
	m.mu.Unlock()
	for _, c := range open {
		_ = c.Close()
	}
	if d > 0 {
		time.AfterFunc(d, func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.down = false
		})
	}
}

// client returns a client with the default timeouts.
func (m *restartableServer) client(o Config) *Client {
	m.t.Helper()
	o.Dial = m.dial
	o.Reconnecting = func(_ error, pause time.Duration) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.pauses = append(m.pauses, pause)
	}
	c, err := New("http://restartable", o)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = c.Close() })
	return c
}

// killAfter kills the server whenever one answer has sent a number of bytes of a file. The server
// stays down for times[0] after the first kill, for times[1] after the second, and so on.
func (m *restartableServer) killAfter(bytes int, times ...time.Duration) {
	left := make(chan time.Duration, len(times))
	for _, d := range times {
		left <- d
	}
	m.setHook(func(w http.ResponseWriter, r *http.Request, _ int) bool {
		m.serveLabFile(&dyingWriter{w, m, bytes, left}, r, m.file("f"))
		return true
	})
}

// A dyingWriter kills its server after a number of bytes.
type dyingWriter struct {
	http.ResponseWriter
	m    *restartableServer
	left int
	gone chan time.Duration
}

func (d *dyingWriter) Write(p []byte) (int, error) {
	if d.left > len(p) || len(d.gone) == 0 {
		n, err := d.ResponseWriter.Write(p)
		d.left -= n
		return n, err
	}
	_, _ = d.ResponseWriter.Write(p[:d.left])
	_ = http.NewResponseController(d.ResponseWriter).Flush()
	d.m.kill(<-d.gone)
	panic(http.ErrAbortHandler)
}

// The client waits for a server that is down repeatedly, for less than AbsenceTimeout each time,
// because an answer restarts that time. Meanwhile it does not try too often.
func TestServerGone(t *testing.T) {
	content := randomContent(1 << 20)
	for name, read := range map[string]func(t *testing.T, f *remoteFile){
		"fetch": func(t *testing.T, f *remoteFile) { wantFetch(t, f, content, 0) },
		"read": func(t *testing.T, f *remoteFile) {
			p := make([]byte, len(content))
			if n, err := f.ReadAt(p, 0); n != len(p) || err != nil || !bytes.Equal(p, content) {
				t.Errorf("%d bytes, %v", n, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := startRestartable(t, map[string][]byte{"f": content})
				m.killAfter(300_000, 14*time.Second, 14*time.Second, 14*time.Second)
				began := time.Now()
				read(t, openRemoteFile(t, m.client(Config{Parts: -1}), "f"))
				if took := time.Since(began); took < 3*14*time.Second {
					t.Errorf("it took %v", took)
				}
				m.wantPatience(3)
			})
		})
	}
}

// wantPatience checks that the client reported its pauses while the server was down, and did not
// try more often than they allow. times is how many times the server was down.
func (m *restartableServer) wantPatience(times int) {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.pauses) == 0 || slices.Max(m.pauses) > maxLossPause*3/2 || slices.Max(m.pauses) < maxLossPause/2 {
		m.t.Errorf("the pauses were %v", m.pauses)
	}
	// The pauses are 0.2, 0.4, 0.8, 1.6 and then 3 s, and each may be half as long.
	if most := times * 20; len(m.dials) > most || len(m.dials) < times {
		m.t.Errorf("%d tries while it was gone %d times", len(m.dials), times)
	}
}

// If a server does not return, the client gives up, but not before AbsenceTimeout.
func TestServerGoneForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := startRestartable(t, map[string][]byte{"f": randomContent(1 << 20)})
		m.killAfter(300_000, 0)
		f := openRemoteFile(t, m.client(Config{Parts: -1}), "f")
		began := time.Now()
		n, err := f.FetchTo(t.Context(), &memWriter{}, 0)
		wantIs(t, "fetch", err, ErrLost)
		wantIs(t, "fetch", err, syscall.ECONNREFUSED)
		if took := time.Since(began); n != 300_000 || took < DefaultAbsenceTimeout || took > DefaultAbsenceTimeout*3/2 {
			t.Errorf("%d bytes came, and it was given up after %v", n, took)
		}
		began = time.Now()
		_, err = f.ReadAt(make([]byte, 10), 500_000)
		wantIs(t, "read", err, ErrLost)
		if took := time.Since(began); took < DefaultAbsenceTimeout || took > DefaultAbsenceTimeout*3/2 {
			t.Errorf("the read was given up after %v", took)
		}
	})
}

// The client does not wait for a server that it could never reach.
func TestServerNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := startRestartable(t, nil)
		m.kill(0)
		began := time.Now()
		_, err := m.client(Config{}).Open(t.Context(), "f")
		wantIs(t, "open", err, syscall.ECONNREFUSED)
		m.mu.Lock()
		defer m.mu.Unlock()
		if took := time.Since(began); took > 0 || len(m.dials) != 1 {
			t.Errorf("%d tries in %v", len(m.dials), took)
		}
	})
}

// When a server goes down, all connections of a file are lost, and that counts as one loss.
func TestServerGoneInParallel(t *testing.T) {
	content := randomContent(32 << 20)
	synctest.Test(t, func(t *testing.T) {
		m := startRestartable(t, map[string][]byte{"f": content})
		var busy, killed atomic.Int32
		m.setHook(func(w http.ResponseWriter, r *http.Request, _ int) bool {
			defer busy.Add(-1)
			if busy.Add(1) > maxTries && killed.CompareAndSwap(0, 1) {
				time.AfterFunc(time.Millisecond, func() { m.kill(15 * time.Second) })
			}
			m.serveLabFile(slowWriter{w}, r, m.file("f"))
			return true
		})
		wantFetch(t, openRemoteFile(t, m.client(Config{}), "f"), content, 0)
		if killed.Load() == 0 {
			t.Fatal("it had too few connections, which shows nothing")
		}
		m.wantPatience(1)
	})
}

// A slowWriter sends 25 MB/s.
type slowWriter struct{ http.ResponseWriter }

func (s slowWriter) Write(p []byte) (int, error) {
	time.Sleep(time.Duration(len(p)) * 40 * time.Nanosecond)
	return s.ResponseWriter.Write(p)
}

// startRestartableParts starts a server that keeps what it received of uploads, and is killed
// whenever its lab cuts one.
func startRestartableParts(t *testing.T, p *partsLab, gone time.Duration) *restartableServer {
	t.Helper()
	m := startRestartable(t, nil)
	hook := p.hook(m.lab)
	m.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
		defer func() {
			if v := recover(); v != nil {
				m.kill(gone)
				panic(v)
			}
		}()
		return hook(w, r, n)
	})
	return m
}

// put uploads content by one FillFrom, without keeping it for another run.
func (m *restartableServer) put(content []byte, o store.Create) error {
	m.t.Helper()
	return m.putBy(m.client(Config{}), content, o)
}

// putBy does the same as put, by the given client.
func (m *restartableServer) putBy(c *Client, content []byte, o store.Create) error {
	m.t.Helper()
	o.Size = int64(len(content))
	u, err := c.Create(m.t.Context(), "f", o)
	if err != nil {
		return err
	}
	defer u.Close()
	if _, resumes := u.(store.Resumer); resumes {
		m.t.Error("it says that another upload can resume it")
	}
	if _, err := u.(*putUpload).FillFrom(m.t.Context(), bytes.NewReader(content), 0, o.Size); err != nil {
		return err
	}
	return u.Commit()
}

// uploads returns the PUTs that had content.
func (m *restartableServer) uploads() (all []*http.Request) {
	for _, r := range m.asked() {
		if r.Method == http.MethodPut && r.ContentLength != 0 {
			all = append(all, r)
		}
	}
	return all
}

// An upload resumes from the offset that the server has, even if it is not kept for another run,
// and no other upload can resume it.
func TestPutServerGone(t *testing.T) {
	content := randomContent(keptFrom + 1<<20)
	synctest.Test(t, func(t *testing.T) {
		p := &partsLab{cuts: []int{20 << 20, 0, 10 << 20}}
		m := startRestartableParts(t, p, 14*time.Second)
		if err := m.put(content, store.Create{}); err != nil {
			t.Fatal(err)
		}
		if got, _ := m.stored("f"); !bytes.Equal(got, content) {
			t.Errorf("%d other bytes have come", len(got))
		}
		var sources []string
		all := m.uploads()
		for _, r := range all {
			sources = append(sources, r.Header.Get("Upload-Source"))
		}
		if len(slices.Compact(sources)) != 1 || len(sources[0]) < 16 {
			t.Errorf("the sources are %q", sources)
		}
		if last := all[len(all)-1].Header.Get("Content-Range"); !strings.HasPrefix(last, "bytes 31457280-") {
			t.Errorf("the last part is %q", last)
		}
		m.wantPatience(3)
	})
}

// Bytes that the server does not keep are sent again if they can be read again, but not endlessly.
func TestPutAnew(t *testing.T) {
	content := randomContent(2 << 20)
	for cuts := range maxRestarts + 2 {
		synctest.Test(t, func(t *testing.T) {
			m := startRestartable(t, nil)
			var mu sync.Mutex
			left := cuts
			m.setHook(func(_ http.ResponseWriter, r *http.Request, _ int) bool {
				mu.Lock()
				defer mu.Unlock()
				if left == 0 {
					return false
				}
				left--
				_, _ = io.CopyN(io.Discard, r.Body, 1<<20)
				m.kill(14 * time.Second)
				panic(http.ErrAbortHandler)
			})
			err := m.put(content, store.Create{})
			got, there := m.stored("f")
			if cuts > maxRestarts {
				wantIs(t, "put", err, ErrLost)
				if there || len(m.uploads()) != cuts {
					t.Errorf("%d uploads, and %d bytes have a name", len(m.uploads()), len(got))
				}
				return
			}
			if err != nil || !bytes.Equal(got, content) {
				t.Errorf("cut %d times: %v, and %d other bytes have come", cuts, err, len(got))
			}
		})
	}
}

// If a source cannot be read again, no part of it is sent again.
func TestPutStreamLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := startRestartable(t, nil)
		m.setHook(func(_ http.ResponseWriter, r *http.Request, _ int) bool {
			_, _ = io.CopyN(io.Discard, r.Body, 100_000)
			m.kill(time.Second)
			panic(http.ErrAbortHandler)
		})
		u, err := m.client(Config{}).Create(t.Context(), "f", store.Create{})
		if err != nil {
			t.Fatal(err)
		}
		defer u.Close()
		for off := int64(0); err == nil && off < 1<<20; off += 1000 {
			_, err = u.WriteAt(make([]byte, 1000), off)
		}
		wantIs(t, "write", err, ErrLost)
		if n := len(m.uploads()); n != 1 {
			t.Errorf("%d uploads", n)
		}
	})
}

// If a proxy answers that its server is down, the client tries again.
func TestPutBehindProxy(t *testing.T) {
	content := randomContent(2 << 20)
	synctest.Test(t, func(t *testing.T) {
		m := startRestartable(t, nil)
		back := time.Now().Add(14 * time.Second)
		m.setHook(func(w http.ResponseWriter, r *http.Request, _ int) bool {
			if time.Now().After(back) {
				return false
			}
			w.WriteHeader(http.StatusBadGateway)
			return true
		})
		if err := m.put(content, store.Create{}); err != nil {
			t.Fatal(err)
		}
		if got, _ := m.stored("f"); !bytes.Equal(got, content) {
			t.Errorf("%d other bytes have come", len(got))
		}
	})
}

// If a server notices the loss of a connection long after the client, the upload stays locked by
// the previous connection meanwhile. The client waits until it is unlocked, but not for ever.
func TestPutLockedOutByItself(t *testing.T) {
	content := randomContent(keptFrom)
	for _, locked := range []time.Duration{web.DefaultStall, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			p := &partsLab{cuts: []int{20 << 20}}
			m := startRestartable(t, nil)
			hook := p.hook(m.lab)
			var cut time.Time
			m.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
				if !cut.IsZero() && time.Since(cut) < locked && r.Header.Get("Content-Range") != "" {
					w.Header().Set("Retry-After", "1")
					w.WriteHeader(http.StatusLocked)
					return true
				}
				defer func() {
					if v := recover(); v != nil {
						cut = time.Now()
						panic(v)
					}
				}()
				return hook(w, r, n)
			})
			err := m.put(content, store.Create{})
			took := time.Since(cut)
			if locked > lockedPatience {
				wantIs(t, "put", err, store.ErrBusy)
				if took < lockedPatience || took > 2*lockedPatience {
					t.Errorf("it is given up after %v", took)
				}
				return
			}
			if got, _ := m.stored("f"); err != nil || !bytes.Equal(got, content) {
				t.Errorf("%d other bytes have come, %v", len(got), err)
			}
			if took < locked || took > 2*locked {
				t.Errorf("it resumes after %v", took)
			}
			if all := m.uploads(); len(all) < 2 || all[0].ContentLength != keptFrom || all[len(all)-1].ContentLength != keptFrom-20<<20 {
				t.Errorf("%d PUTs, and not the rest in the last", len(all))
			}
		})
	}
}

// If only the answer is lost, the error says that the file may be this upload.
func TestPutAnswerLost(t *testing.T) {
	content := randomContent(2 << 20)
	synctest.Test(t, func(t *testing.T) {
		m := startRestartable(t, nil)
		first := true
		m.setHook(func(w http.ResponseWriter, r *http.Request, _ int) bool {
			if !first {
				return false
			}
			first = false
			m.servePut(w, r)
			m.kill(time.Second)
			panic(http.ErrAbortHandler)
		})
		err := m.put(content, store.Create{Exclusive: true})
		wantIs(t, "put", err, os.ErrExist)
		if err == nil || !strings.Contains(err.Error(), "may be this upload") {
			t.Errorf("it says %v", err)
		}
	})
}

// After an upload that is given up, the server keeps no bytes of it, because it will not be
// resumed. If another upload prevents parts, the file is sent as a whole.
func TestPutForgets(t *testing.T) {
	content := randomContent(keptFrom)
	synctest.Test(t, func(t *testing.T) {
		p := &partsLab{}
		m := startRestartableParts(t, p, 10*time.Millisecond)
		broken := errors.New("the disk is broken")
		u, err := m.client(Config{}).Create(t.Context(), "f", store.Create{Size: keptFrom})
		if err != nil {
			t.Fatal(err)
		}
		_, err = u.(*putUpload).FillFrom(t.Context(), &brokenReader{20 << 20, broken}, 0, keptFrom)
		wantIs(t, "fill", err, broken)
		synctest.Wait()
		p.mu.Lock()
		if len(p.part) == 0 {
			t.Error("the server keeps nothing, which shows nothing")
		}
		p.mu.Unlock()
		if err := u.Close(); err != nil {
			t.Error(err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.part) > 0 {
			t.Errorf("the server keeps %d bytes", len(p.part))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		m := startRestartable(t, nil)
		m.setHook(func(w http.ResponseWriter, r *http.Request, _ int) bool {
			switch {
			case r.Method == http.MethodOptions:
				w.Header().Set(acceptUploadRange, "bytes")
				w.WriteHeader(http.StatusNoContent)
			case r.Header.Get("Content-Range") != "":
				w.WriteHeader(http.StatusLocked)
			default:
				return false
			}
			return true
		})
		if err := m.put(content, store.Create{}); err != nil {
			t.Fatal(err)
		}
		if got, _ := m.stored("f"); !bytes.Equal(got, content) {
			t.Errorf("%d other bytes have come", len(got))
		}
	})
}

// A server that was busy when it was asked whether it accepts parts is asked again for the next
// upload, and a server that does not accept them is not.
func TestPutAsksAgain(t *testing.T) {
	content := randomContent(keptFrom)
	for status, want := range map[int]bool{http.StatusServiceUnavailable: true, http.StatusTooManyRequests: true, http.StatusInternalServerError: true, http.StatusMethodNotAllowed: false} {
		synctest.Test(t, func(t *testing.T) {
			m := startRestartable(t, nil)
			uploads, parts := 0, 0
			m.setHook(func(w http.ResponseWriter, r *http.Request, _ int) bool {
				switch {
				case r.Method == http.MethodOptions && uploads == 0:
					w.WriteHeader(status)
				case r.Method == http.MethodOptions:
					w.Header().Set(acceptUploadRange, "bytes")
					w.WriteHeader(http.StatusNoContent)
				case r.Header.Get("Content-Range") != "":
					parts++
					w.WriteHeader(http.StatusLocked) // the upload is then sent as a whole
				default:
					uploads++
					return false
				}
				return true
			})
			c := m.client(Config{})
			for range 2 {
				if err := m.putBy(c, content, store.Create{}); err != nil {
					t.Fatal(err)
				}
			}
			if got := parts > 0; got != want {
				t.Errorf("after an answer of %d to the question, %d parts of the next upload were sent", status, parts)
			}
		})
	}
}

// If a server claims to have more of an upload than was sent, that is an error.
func TestPutHasMore(t *testing.T) {
	content := randomContent(keptFrom)
	synctest.Test(t, func(t *testing.T) {
		p := &partsLab{cuts: []int{1 << 20}, lie: "33554000"}
		m := startRestartableParts(t, p, time.Second)
		wantIs(t, "put", m.put(content, store.Create{}), ErrProtocol)
		if _, there := m.stored("f"); there {
			t.Error("something has its name")
		}
	})
}

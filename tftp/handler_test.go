package tftp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/sim"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/transfer"
)

// Read and Write get the client, the local address and the file name of a request, and the server
// serves the files that they return.
func TestHandlers(t *testing.T) {
	var mu sync.Mutex
	var asked []Request
	note := func(r *Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, *r)
	}
	inWorld(t, func(w *simWorld, s *Config) {
		s.Read = func(ctx context.Context, r *Request) (store.File, error) {
			note(r)
			return s.Store.Open(ctx, "generated")
		}
		s.Write = func(ctx context.Context, r *Request) (store.Upload, error) {
			note(r)
			return w.mem.Create(ctx, "from-"+r.Peer.Addr().String(), store.Create{})
		}
	}, func(w *simWorld) {
		want := w.put("generated", 3000)
		here := store.Mem(0)
		if _, err := w.client().Get(context.Background(), target("/a//b"), tftptest.Into(here, "got")); err != nil {
			t.Fatal(err)
		}
		tftptest.WantFile(t, here, "got", want)
		if _, err := w.client().Put(context.Background(), target("log"), bytes.NewReader(want), 3000); err != nil {
			t.Fatal(err)
		}
		tftptest.WantFile(t, w.mem, "from-"+clientIP, want)
		if len(asked) != 2 {
			t.Fatalf("asked %v", asked)
		}
		for i, r := range asked {
			if r.Local != addrPort(serverIP, transfer.Port) || r.Peer.Addr() != netip.MustParseAddr(clientIP) || r.Write != (i == 1) {
				t.Errorf("request %d: %+v", i, r)
			}
		}
		if asked[0].Name != "/a//b" || asked[0].Offer.BlockSize != 1024 {
			t.Errorf("asked for %+v", asked[0])
		}
	})
}

// Each kind of error is sent with its own code, and the message reveals no more than necessary.
func TestHandlerErrors(t *testing.T) {
	secret := errors.New("/etc/secret")
	tests := []struct {
		err  error
		code transfer.ErrorCode
		text string
	}{
		{fs.ErrNotExist, transfer.FileNotFound, "file not found"},
		{fmt.Errorf("%w: %w", secret, fs.ErrPermission), transfer.AccessViolation, "access violation"},
		{fs.ErrExist, transfer.FileExists, "file already exists"},
		{store.ErrNoSpace, transfer.DiskFull, "no space left on the server"},
		{store.ErrUnavailable, transfer.NotDefined, "the server cannot reach its files, try again"},
		{secret, transfer.NotDefined, "server error"},
		{context.DeadlineExceeded, transfer.NotDefined, "server error"},
		{&transfer.Error{Code: transfer.NoSuchUser, Message: "who are you?"}, transfer.NoSuchUser, "who are you?"},
		{fmt.Errorf("look up: %w", &transfer.Error{Code: transfer.FileNotFound, Message: "not yours"}), transfer.FileNotFound, "not yours"},
		{&transfer.Error{Remote: true, Code: transfer.NoSuchUser, Message: "of another server"}, transfer.NotDefined, "server error"},
		{nil, transfer.FileNotFound, "file not found"}, // neither a file nor an error
	}
	for _, test := range tests {
		inWorld(t, func(_ *simWorld, s *Config) {
			s.Read = func(context.Context, *Request) (store.File, error) { return nil, test.err }
		}, func(w *simWorld) {
			_, err := w.client().Get(context.Background(), target("x"), nil)
			fault, ok := errors.AsType[*transfer.Error](err)
			if !ok || fault.Code != test.code || fault.Message != test.text {
				t.Errorf("%v became %v", test.err, err)
			}
			want := Refused
			// An administrator must fix the causes of these errors.
			if test.err == store.ErrNoSpace || test.err == store.ErrUnavailable {
				want = Failed
			}
			w.wantResults(map[Outcome]int{want: 1})
		})
	}
}

// Without a handler, requests are refused: a server that only has Read accepts no uploads, and vice
// versa.
func TestHandlersMissing(t *testing.T) {
	inWorld(t, func(_ *simWorld, s *Config) {
		s.Store = nil
		s.Read = func(context.Context, *Request) (store.File, error) { return nil, fs.ErrNotExist }
	}, func(w *simWorld) {
		_, err := w.client().Put(context.Background(), target("x"), bytes.NewReader(nil), 0)
		tftptest.WantFault(t, err, transfer.AccessViolation)
	})
	inWorld(t, func(w *simWorld, s *Config) {
		s.Store = nil
		s.Write = func(ctx context.Context, r *Request) (store.Upload, error) {
			return w.mem.Create(ctx, r.Name, store.Create{})
		}
	}, func(w *simWorld) {
		_, err := w.client().Get(context.Background(), target("x"), nil)
		tftptest.WantFault(t, err, transfer.AccessViolation)
	})
	if _, err := (&Config{}).Listen(t.Context(), ":0"); err == nil {
		t.Error("a server with nothing to serve listens")
	}
}

// A handler's context ends with its transfer, however that ends.
func TestHandlerContext(t *testing.T) {
	images, slows := make(chan context.Context, 4), make(chan context.Context, 4)
	inWorld(t, func(w *simWorld, s *Config) {
		s.Read = func(ctx context.Context, r *Request) (store.File, error) {
			if r.Name == "slow" {
				slows <- ctx
				<-ctx.Done() // wait, like a call to another server
				return nil, ctx.Err()
			}
			images <- ctx
			return w.mem.Open(ctx, r.Name)
		}
		s.Grace = time.Second
	}, func(w *simWorld) {
		w.put("image", 100)
		if _, err := w.client().Get(context.Background(), target("image"), tftptest.Into(store.Mem(0), "image")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if ctx := <-images; ctx.Err() == nil {
			t.Error("the context outlives its transfer")
		}
		p := w.raw(otherIP)
		defer p.Close()
		p.Send(tftptest.RRQ("slow"))
		p.Send(tftptest.RRQ("image")) // starts another transfer
		p.News()
		synctest.Wait()
		if first := <-slows; first.Err() == nil {
			t.Error("the context outlives a transfer that was replaced")
		}
		p.Send(tftptest.ErrorPacket(0, "enough"))

		q := w.raw(otherIP)
		defer q.Close()
		q.Send(tftptest.RRQ("slow"))
		slow := <-slows
		w.stop()
		time.Sleep(2 * time.Second)
		if slow.Err() == nil {
			t.Error("the context outlives the server")
		}
	})
}

// Started and Ended are called once for each transfer, with the same value.
func TestHooks(t *testing.T) {
	var mu sync.Mutex
	var started, ended []*Transfer
	inWorld(t, func(_ *simWorld, s *Config) {
		s.Hooks.Started = func(tr *Transfer) {
			mu.Lock()
			defer mu.Unlock()
			tr.Value = len(started)
			started = append(started, tr)
			if tr.Outcome != "" || tr.Name == "image" && (tr.Size != 5000 || tr.Agreed.BlockSize != 1024) {
				t.Errorf("started %+v", tr)
			}
		}
		s.Hooks.Ended = func(tr *Transfer) {
			mu.Lock()
			defer mu.Unlock()
			ended = append(ended, tr)
		}
	}, func(w *simWorld) {
		b := w.put("image", 5000)
		if _, err := w.client().Get(context.Background(), target("image"), tftptest.Into(store.Mem(0), "image")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if _, err := w.client().Put(context.Background(), target("new"), bytes.NewReader(b), 5000); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		_, _ = w.client().Get(context.Background(), target("missing"), nil)
		time.Sleep(time.Minute) // wait, because loops end their transfers in any order
		mu.Lock()
		defer mu.Unlock()
		slices.SortStableFunc(ended, func(a, b *Transfer) int { return a.Began.Compare(b.Began) })
		if len(started) != 2 || len(ended) != 3 || ended[0] != started[0] || ended[1] != started[1] {
			t.Fatalf("%d started, %d ended", len(started), len(ended))
		}
		for i, tr := range ended[:2] {
			if tr.Value != i || tr.Outcome != Done || tr.Bytes != 5000 || tr.Err != nil || tr.Sent == 0 || tr.Write != (i == 1) {
				t.Errorf("ended %+v", tr)
			}
		}
		if tr := ended[2]; tr.Outcome != Refused || !errors.Is(tr.Err, fs.ErrNotExist) {
			t.Errorf("ended %+v", tr)
		}
	})
}

// A brittleFile panics at a given place.
type brittleFile struct {
	store.File
	in string
}

func (f brittleFile) TryReadAt(bufs [][]byte, off int64) (int, error) {
	if f.in == "TryReadAt" {
		panic("a bug of the program's")
	}
	if f.in == "ReadAt" {
		return 0, store.ErrWouldBlock
	}
	return f.File.(store.TryReader).TryReadAt(bufs, off)
}

func (f brittleFile) ReadAt(p []byte, off int64) (int, error) {
	panic("a bug of the program's")
}

// A panic in the program's own code ends only one transfer.
func TestPanics(t *testing.T) {
	for _, in := range []string{"Read", "ReadAt", "TryReadAt", "Started", "Ended"} {
		inWorld(t, func(w *simWorld, s *Config) {
			s.Loops = 1
			s.Read = func(ctx context.Context, r *Request) (store.File, error) {
				f, err := w.disk.Open(ctx, "image")
				if r.Name != "brittle" {
					return f, err
				}
				if in == "Read" {
					_ = f.Close()
					panic("a bug of the program's")
				}
				return brittleFile{f, in}, err
			}
			hook := func(name string) func(*Transfer) {
				return func(tr *Transfer) {
					if in == name && tr.Name == "brittle" {
						panic("a bug of the program's")
					}
				}
			}
			s.Hooks.Started, s.Hooks.Ended = hook("Started"), hook("Ended")
		}, func(w *simWorld) {
			want := w.put("image", 2*maxAhead)
			p := w.raw(otherIP)
			defer p.Close()
			p.Send(tftptest.RRQ("image"))
			p.Want("first block", tftptest.Data(1, want[:512]))

			_, err := w.client().Get(context.Background(), target("brittle"), tftptest.Into(store.Mem(0), "x"))
			if hooked := in == "Started" || in == "Ended"; hooked != (err == nil) {
				t.Errorf("%s panics: %v", in, err)
			} else if !hooked {
				tftptest.WantFault(t, err, transfer.NotDefined)
				w.wantResults(map[Outcome]int{Done: 0})
			}
			p.Send(tftptest.ACK(1))
			p.Want("the other transfer continues", tftptest.Data(2, want[512:1024]))
			p.Send(tftptest.ErrorPacket(0, "enough"))
			here := store.Mem(0)
			if _, err := w.client().Get(context.Background(), target("image"), tftptest.Into(here, "image")); err != nil {
				t.Errorf("after a panic in %s: %v", in, err)
			}
			tftptest.WantFile(t, here, "image", want)
			synctest.Wait()
			if n := w.server.Counters().Crashes; n != 1 {
				t.Errorf("%d crashes counted", n)
			}
		})
	}
}

// An upload beyond the limit is refused before Write is called.
func TestHandlerUploadTooLarge(t *testing.T) {
	inWorld(t, func(_ *simWorld, s *Config) {
		s.MaxUpload = 100
		s.Write = func(context.Context, *Request) (store.Upload, error) { return nil, syscall.EIO }
	}, func(w *simWorld) {
		p := w.raw(otherIP)
		defer p.Close()
		p.Send(tftptest.WRQ("new", "tsize", "101"))
		p.WantError("too large", transfer.DiskFull)
	})
}

// A brokenFile violates the contract of its interface.
type brokenFile struct {
	store.File
	size int64
	read func(p []byte) (int, error)
}

func (f brokenFile) ReadAt(p []byte, _ int64) (int, error) { return f.read(p) }
func (f brokenFile) Stat() (fs.FileInfo, error)            { return tftptest.FileSize(f.size), nil }
func (f brokenFile) Close() error                          { return nil }

// Faults in a program's files end the transfer at once with an ERROR.
func TestBrokenFiles(t *testing.T) {
	returns := func(n int, err error) func([]byte) (int, error) {
		return func([]byte) (int, error) { return n, err }
	}
	for name, f := range map[string]brokenFile{
		"negative size": {size: -5, read: returns(0, nil)},
		"short":         {size: 5000, read: returns(100, nil)},
		"nothing":       {size: 5000, read: returns(0, nil)},
		"negative":      {size: 5000, read: returns(-1, nil)},
		"too much":      {size: 5000, read: returns(1<<20, nil)},
	} {
		for _, mode := range []transfer.Mode{transfer.Octet, transfer.Netascii} {
			inWorld(t, func(_ *simWorld, s *Config) {
				s.Read = func(context.Context, *Request) (store.File, error) { return f, nil }
			}, func(w *simWorld) {
				began, to := time.Now(), target("x")
				to.Mode = mode
				_, err := w.client().Get(context.Background(), to, tftptest.Into(store.Mem(0), "x"))
				tftptest.WantFault(t, err, transfer.NotDefined)
				if took := time.Since(began); took > time.Second {
					t.Errorf("%s, %v: took %v", name, mode, took)
				}
				w.wantResults(map[Outcome]int{Done: 0, Probe: 0})
			})
		}
	}
}

// A lazyUpload stores half of the data, without an error.
type lazyUpload struct{ store.Upload }

func (u lazyUpload) WriteAt(p []byte, off int64) (int, error) {
	return u.Upload.WriteAt(p[:len(p)/2], off)
}

func (u lazyUpload) Location() store.Location { return store.Location{Name: "elsewhere"} }

// If a store accepts less than it was given, the upload fails.
func TestShortWriteIsNoSuccess(t *testing.T) {
	inWorld(t, func(w *simWorld, s *Config) {
		s.Write = func(ctx context.Context, r *Request) (store.Upload, error) {
			u, err := w.mem.Create(ctx, r.Name, store.Create{})
			return lazyUpload{u}, err
		}
	}, func(w *simWorld) {
		_, err := w.client().Put(context.Background(), target("x"), bytes.NewReader(tftptest.Content("x", 3000)), 3000)
		tftptest.WantFault(t, err, transfer.NotDefined)
		w.wantResults(map[Outcome]int{Failed: 1})
		tftptest.WantNoFile(t, w.mem, "x")
		if stored := w.log.lines[0]["stored"]; stored != "elsewhere" {
			t.Errorf("the log says that it is stored as %q", stored)
		}
	})
}

// If a client gives up while the store hangs, this does not count as a size probe.
func TestHangingStoreIsNoProbe(t *testing.T) {
	inWorld(t, func(w *simWorld, s *Config) {
		w.disk.NoTry = true
		w.disk.Before = func(c sim.Call) error {
			if c.Op == sim.Read {
				time.Sleep(10 * time.Second)
			}
			return nil
		}
	}, func(w *simWorld) {
		w.put("image", 2*maxAhead)
		p := w.raw(otherIP)
		defer p.Close()
		p.Send(tftptest.RRQ("image", "blksize", "1024"))
		p.Want("answer", tftptest.OACK("blksize", "1024"))
		p.Send(tftptest.ACK(0))
		time.Sleep(5 * time.Second)
		p.Send(tftptest.ErrorPacket(0, "enough"))
		time.Sleep(time.Minute)
		w.wantResults(map[Outcome]int{EndedByPeer: 1})
		if slow := w.log.lines[0]["slow"]; slow != "disk" {
			t.Errorf("slow is %q", slow)
		}
	})
}

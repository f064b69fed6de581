package tftp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/sim"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/fileio"
	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/transfer"
)

// A store that takes seconds for one file does not delay others.
func TestSlowStore(t *testing.T) {
	const pause = 7 * time.Second
	for _, op := range []string{sim.Open, sim.Read, sim.Create, sim.Write, sim.Truncate, sim.Commit} {
		for _, reused := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/reused=%v", op, reused), func(t *testing.T) {
				slowStore(t, op, pause, reused)
			})
		}
	}
}

func slowStore(t *testing.T, op string, pause time.Duration, reused bool) {
	inWorld(t, func(w *simWorld, s *Config) {
		s.Loops = 1
		w.net.Default = sim.Link{Latency: time.Millisecond}
		w.disk.Before = func(c sim.Call) error {
			if c.Name != "slow" {
				return nil
			}
			switch c.Op {
			case op:
				time.Sleep(pause)
			case sim.TryRead:
				return store.ErrWouldBlock
			}
			return nil
		}
	}, func(w *simWorld) {
		b := w.put("fast", 30_000)
		w.put("slow", 30_000)
		here := store.Mem(0)
		write := op != sim.Open && op != sim.Read
		move := func(name string) error {
			c := w.client()
			c.BlockSize, c.Window = 1024, 16
			if write {
				_, err := c.Put(context.Background(), target(name), bytes.NewReader(b), int64(len(b)))
				return err
			}
			_, err := c.Get(context.Background(), target(name), tftptest.Into(here, name))
			return err
		}
		if reused { // with sessions that earlier transfers have used
			if err := move("fast"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		opens := w.disk.Calls(sim.Open) + w.disk.Calls(sim.Create)
		began := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := move("slow"); err != nil {
				t.Errorf("slow: %v", err)
			}
			if took := time.Since(began); took < pause || took > 4*pause {
				t.Errorf("slow: took %v, want %v or a little more", took, pause)
			}
		})
		time.Sleep(time.Millisecond)
		if err := move("fast"); err != nil || time.Since(began) > time.Second {
			t.Errorf("fast: %v after %v", err, time.Since(began))
		}
		wg.Wait()
		if n := w.disk.Calls(sim.Open) + w.disk.Calls(sim.Create) - opens; n != 2 {
			t.Errorf("%d files opened for two transfers", n)
		}
	})
}

// Files that are not in memory arrive as well, from all kinds of stores.
func TestParkedReads(t *testing.T) {
	unsupported := func(c sim.Call) error {
		if c.Op == sim.TryRead {
			return errors.ErrUnsupported
		}
		return nil
	}
	sometimes := func(c sim.Call) error {
		if c.Op == sim.TryRead && c.N%3 != 0 {
			return store.ErrWouldBlock
		}
		return nil
	}
	tests := map[string]struct {
		noTry  bool
		before func(sim.Call) error
	}{"no TryReader": {noTry: true}, "unsupported": {before: unsupported}, "sometimes": {before: sometimes}}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *simWorld, _ *Config) {
				w.net.Default = sim.Link{Latency: time.Millisecond, Loss: 0.01}
				w.disk.NoTry, w.disk.Before = test.noTry, test.before
			}, moveMany)
		})
	}
}

// If the disk is full at the first write or any later one, the peer gets an ERROR, nothing is left
// behind, and the next upload succeeds.
func TestDiskFull(t *testing.T) {
	full := fmt.Errorf("quota: %w", store.ErrNoSpace)
	for _, op := range []string{sim.Create, sim.Write, sim.Truncate, sim.Commit} {
		for k := 1; k <= 8; k++ {
			if op != sim.Write && k > 1 {
				break
			}
			failUpload(t, op, k, full, transfer.DiskFull)
		}
	}
}

// An upload that fails for another reason gets no final ACK either.
func TestUploadFails(t *testing.T) {
	for _, test := range []struct {
		err  error
		code transfer.ErrorCode
	}{
		{errors.New("input/output error at /secret/path"), transfer.NotDefined},
		{fs.ErrExist, transfer.FileExists},
		{fs.ErrPermission, transfer.AccessViolation},
	} {
		for _, op := range []string{sim.Create, sim.Write, sim.Truncate, sim.Commit} {
			failUpload(t, op, 1, test.err, test.code)
		}
	}
}

// failUpload makes the kth call of the operation op fail during an upload.
func failUpload(t *testing.T, op string, k int, cause error, code transfer.ErrorCode) {
	t.Run(fmt.Sprintf("%s %d: %v", op, k, cause), func(t *testing.T) {
		inWorld(t, func(w *simWorld, s *Config) {
			w.net.Default = sim.Link{Latency: time.Millisecond}
			w.disk.Before = func(c sim.Call) error {
				if c.Op == op && c.N == k {
					return cause
				}
				return nil
			}
		}, func(w *simWorld) {
			b := tftptest.Content("new", 8*fairRing) // more than eight writes
			c := w.client()
			c.Window = 4
			_, err := c.Put(context.Background(), target("new"), bytes.NewReader(b), int64(len(b)))
			tftptest.WantFault(t, err, code)
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the peer learns of our paths: %v", err)
			}
			synctest.Wait()
			if n := w.disk.Unclosed(); n != 0 {
				t.Errorf("%d uploads left open", n)
			}
			tftptest.WantNoFile(t, w.mem, "new")
			if _, err := c.Put(context.Background(), target("new"), bytes.NewReader(b), int64(len(b))); err != nil {
				t.Errorf("the next upload: %v", err)
			}
			tftptest.WantFile(t, w.mem, "new", b)
		})
	})
}

// A client that cannot store a file sends the server an ERROR, and returns the reason.
func TestClientCannotKeep(t *testing.T) {
	causes := map[error]transfer.ErrorCode{
		errors.New("input/output error"):          transfer.NotDefined,
		fmt.Errorf("quota: %w", store.ErrNoSpace): transfer.DiskFull,
	}
	for cause, code := range causes {
		for _, op := range []string{sim.Create, sim.Write, sim.Truncate, sim.Commit} {
			inWorld(t, nil, func(w *simWorld) {
				w.put("image", 100_000)
				here := &sim.Disk{Store: store.Mem(0), Before: func(c sim.Call) error {
					if c.Op == op {
						return cause
					}
					return nil
				}}
				var faults []byte
				w.net.Tap = func(p sim.Packet) bool {
					if transfer.OpcodeOf(p.Data) == transfer.ErrorPacket {
						faults = append(faults, p.Data[3])
					}
					return true
				}
				_, err := w.client().Get(context.Background(), target("image"), tftptest.Into(here, "image"))
				if !errors.Is(err, cause) {
					t.Errorf("%s: error %v, want %v", op, err, cause)
				}
				if string(faults) != string([]byte{byte(code)}) {
					t.Errorf("%s: ERROR packets %v, want one %d", op, faults, code)
				}
				result := EndedByPeer
				if op == sim.Create && code == transfer.NotDefined {
					result = Probe // the server counts the read as a probe
				}
				w.wantResults(map[Outcome]int{result: 1})
				if here.Unclosed() != 0 {
					t.Errorf("%s: upload left open", op)
				}
				tftptest.WantNoFile(t, here, "image")
			})
		}
	}
}

// A shrinking is a file that becomes shorter after a while.
type shrinking struct {
	mu   sync.Mutex
	data []byte
}

func (f *shrinking) cut(size int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.data = f.data[:size]
}

func (f *shrinking) ReadAt(p []byte, off int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return bytes.NewReader(f.data).ReadAt(p, off)
}

func (f *shrinking) Close() error { return nil }

func (f *shrinking) Stat() (fs.FileInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return tftptest.FileSize(len(f.data)), nil
}

// A oneFile is a store with one file.
type oneFile struct {
	store.Store
	file store.File
}

func (o oneFile) Open(context.Context, string) (store.File, error) { return o.file, nil }

// If a file becomes shorter while it is sent, the transfer ends at once, wherever in a block the
// file now ends.
func TestFileShrinks(t *testing.T) {
	for _, mode := range []transfer.Mode{transfer.Octet, transfer.Netascii} {
		for _, left := range []int{0, 100, 1024, 29_000, 30_000, 49_999} {
			t.Run(fmt.Sprintf("%v/%d", mode, left), func(t *testing.T) {
				f := &shrinking{data: tftptest.Content("text", 50_000)}
				inWorld(t, func(w *simWorld, s *Config) {
					s.Store = oneFile{store.Mem(0), f}
					w.net.Default = sim.Link{Latency: time.Millisecond, Rate: 10_000, Queue: time.Minute}
				}, func(w *simWorld) {
					time.AfterFunc(time.Second, func() { f.cut(left) })
					to := target("text")
					to.Mode = mode
					_, err := w.client().Get(context.Background(), to, tftptest.Into(store.Mem(0), "text"))
					tftptest.WantFault(t, err, transfer.NotDefined)
					w.wantResults(map[Outcome]int{Failed: 1})
				})
			})
		}
	}
}

// If a client's file becomes shorter while it is sent, the transfer ends at once too.
func TestClientFileShrinks(t *testing.T) {
	for _, left := range []int{0, 100, 30_000, 49_999} {
		inWorld(t, func(w *simWorld, s *Config) { w.net.Default = slowLink }, func(w *simWorld) {
			f := &shrinking{data: tftptest.Content("text", 50_000)}
			time.AfterFunc(time.Second, func() { f.cut(left) })
			_, err := w.client().Put(context.Background(), target("new"), f, 50_000)
			if !errors.Is(err, fileio.ErrChanged) {
				t.Errorf("shrunk to %d: %v", left, err)
			}
			time.Sleep(20 * time.Second)
			w.wantResults(map[Outcome]int{EndedByPeer: 1})
			tftptest.WantNoFile(t, w.mem, "new")
		})
	}
}

// A read error in the middle of a file is answered with an ERROR, not with data.
func TestReadFails(t *testing.T) {
	for _, noTry := range []bool{false, true} {
		inWorld(t, func(w *simWorld, _ *Config) {
			w.disk.NoTry = noTry
			w.disk.Before = func(c sim.Call) error {
				if c.N == 3 && (c.Op == sim.TryRead || c.Op == sim.Read) {
					return io.ErrUnexpectedEOF
				}
				return nil
			}
		}, func(w *simWorld) {
			w.put("image", 500_000)
			_, err := w.client().Get(context.Background(), target("image"), tftptest.Into(store.Mem(0), "image"))
			tftptest.WantFault(t, err, transfer.NotDefined)
		})
	}
}

package sftpclient

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// If a write fails after Write has returned, the next call returns the error, and so do all later
// calls.
func TestWriteBehindErrors(t *testing.T) {
	withFakeServer(t, Config{}, func(p *fakeServer) {
		p.link.latency = 10 * time.Millisecond
		p.ext = p.ext.Without(wire.ExtLimits)
		p.hook = func(s *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
			if q.Type == wire.TypeWrite && q.Offset <= 200_000 && q.Offset+int64(len(q.Data)) > 200_000 {
				return wire.AppendStatus(nil, q.ID, wire.NoSpace, "full"), true
			}
			return nil, false
		}
	}, func(t *testing.T, p *fakeServer, c *Client) {
		data := pattern(1<<20, 1)
		p.put(t, "old", data[:150_000])
		for _, name := range []string{"new", "old"} {
			f, err := c.OpenFile(t.Context(), name, os.O_RDWR|os.O_CREATE, 0o644)
			if err != nil {
				t.Fatal(err)
			}
			if n, err := f.Write(data[:400_000]); n != 400_000 || err != nil {
				t.Errorf("the first Write = %d, %v", n, err)
			}
			if name == "new" {
				if err := f.Sync(); !errors.Is(err, store.ErrNoSpace) {
					t.Errorf("Sync: %v", err)
				}
			} else {
				time.Sleep(time.Second)
			}
			if n, err := f.Write(data[400_000:]); n != 0 || !errors.Is(err, store.ErrNoSpace) {
				t.Errorf("the Write after it = %d, %v", n, err)
			}
			if _, err := f.WriteAt(data, 0); !errors.Is(err, store.ErrNoSpace) {
				t.Errorf("WriteAt: %v", err)
			}
			if _, err := f.Read(make([]byte, 1)); !errors.Is(err, store.ErrNoSpace) {
				t.Errorf("Read: %v", err)
			}
			te := (*TransferError)(nil)
			if err := f.Close(); !errors.Is(err, store.ErrNoSpace) || !errors.As(err, &te) || te.Local || te.Offset > 200_000 {
				t.Errorf("Close: %v", err)
			}
			// The file is truncated at the first gap, but not below its old size.
			got := p.get(t, name)
			if len(got) > 200_000 || len(got) < 150_000 || !bytes.Equal(got, data[:len(got)]) {
				t.Errorf("%s is left with %d bytes", name, len(got))
			}
		}
	})
}

// If the server refuses two parts, Close returns the error of the part that was written first, and
// the file is truncated at the lower offset.
func TestTwoFailedWrites(t *testing.T) {
	const low, high, part = 0, 2 << 20, 200_000
	data := pattern(high+part, 1)
	for _, order := range [][2]int64{{low, high}, {high, low}} {
		withFakeServer(t, Config{}, func(p *fakeServer) {
			p.link.latency = 10 * time.Millisecond
			p.lim.Write = 32 << 10
			p.hook = func(_ *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
				if q.Type != wire.TypeWrite || q.Offset%high < 100_000 {
					return nil, false
				}
				status := wire.QuotaExceeded
				if (q.Offset < high) == (order[0] == low) {
					status = wire.NoSpace
				}
				return wire.AppendStatus(nil, q.ID, status, ""), true
			}
		}, func(t *testing.T, p *fakeServer, c *Client) {
			f, err := c.Create(t.Context(), "f")
			if err != nil {
				t.Fatal(err)
			}
			for _, off := range order {
				if n, err := f.WriteAt(data[off:off+part], off); n != part || err != nil {
					t.Fatalf("WriteAt %d = %d, %v", off, n, err)
				}
			}
			time.Sleep(time.Second)
			if got := len(p.get(t, "f")); got < high {
				t.Fatalf("the server has %d bytes before Close, so there is nothing to cut", got)
			}
			for _, of := range []string{"Sync", "Close"} {
				err := map[string]func() error{"Sync": f.Sync, "Close": f.Close}[of]()
				refused := (*StatusError)(nil)
				if !errors.As(err, &refused) || refused.Code != uint32(wire.NoSpace) {
					t.Errorf("written in the order %d: %s: %v, want the error of the first", order, of, err)
				}
			}
			if got := p.get(t, "f"); len(got) == 0 || len(got) >= part || !bytes.Equal(got, data[:len(got)]) {
				t.Errorf("written in the order %d: the file is left with %d bytes", order, len(got))
			}
		})
	}
}

// refuseWrites makes a server refuse writes of the bytes from 50,000 to 100,000 because its disk
// is full.
func refuseWrites(p *fakeServer) {
	p.link.latency = 10 * time.Millisecond
	p.lim.Write = 32 << 10
	p.hook = func(_ *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
		if q.Type != wire.TypeWrite || q.Offset+int64(len(q.Data)) < 50_000 || q.Offset >= 100_000 {
			return nil, false
		}
		return wire.AppendStatus(nil, q.ID, wire.NoSpace, ""), true
	}
}

// A file keeps its old bytes, even if writing fails at an offset below its old size.
func TestFailedWriteKeepsOldBytes(t *testing.T) {
	const old = 150_000
	withFakeServer(t, Config{}, refuseWrites, func(t *testing.T, p *fakeServer, c *Client) {
		data := pattern(400_000, 1)
		p.put(t, "f", data[:old])
		f, err := c.OpenFile(t.Context(), "f", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		// Write two parts, so that the client writes the second one although the first has failed.
		for _, at := range [][2]int{{0, old}, {old + 50_000, len(data)}} {
			if _, err := f.WriteAt(data[at[0]:at[1]], int64(at[0])); err != nil {
				t.Errorf("WriteAt %d: %v", at[0], err)
			}
		}
		if err := f.Close(); !errors.Is(err, store.ErrNoSpace) {
			t.Errorf("Close: %v", err)
		}
		if got := p.get(t, "f"); !bytes.Equal(got, data[:old]) {
			t.Errorf("the file is left with %d bytes, want the %d that it had", len(got), old)
		}
	})
}

// If writing fails after a truncation, the file does not get its old size back, filled with
// zeros.
func TestFailedWriteAfterTruncate(t *testing.T) {
	const old = 300_000
	withFakeServer(t, Config{}, refuseWrites, func(t *testing.T, p *fakeServer, c *Client) {
		data := pattern(400_000, 1)
		p.put(t, "f", data[:old])
		f, err := c.OpenFile(t.Context(), "f", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(0); err != nil {
			t.Error(err)
		}
		if _, err := f.WriteAt(data, 0); err != nil {
			t.Errorf("WriteAt: %v", err)
		}
		if err := f.Close(); !errors.Is(err, store.ErrNoSpace) {
			t.Errorf("Close: %v", err)
		}
		if got := p.get(t, "f"); len(got) > 50_000 || !bytes.Equal(got, data[:len(got)]) {
			t.Errorf("the file is left with %d bytes", len(got))
		}
	})
}

// A write waits if it overlaps a pending write, even if it begins exactly where another pending
// write ends.
func TestOverlappingWritesBehindOthers(t *testing.T) {
	withFakeServer(t, Config{}, func(p *fakeServer) { p.link.latency = 10 * time.Millisecond }, func(t *testing.T, p *fakeServer, c *Client) {
		f, err := c.Create(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		want := make([]byte, 2000)
		for i, at := range [][3]int{{1000, 2000, 1}, {500, 1000, 2}, {1000, 1500, 1}} {
			b := pattern(at[1]-at[0], byte(i))
			copy(want[at[0]:], b)
			if _, err := f.WriteAt(b, int64(at[0])); err != nil {
				t.Errorf("WriteAt %d: %v", at[0], err)
			}
			if n := f.behind.Runs(); n != at[2] {
				t.Errorf("with write %d there are %d under way, want %d", i, n, at[2])
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if !bytes.Equal(p.get(t, "f"), want) {
			t.Error("the file has other bytes")
		}
	})
}

// After ReadAt has returned, nothing is written to its buffer, even if the answer arrives later, or
// was arriving when the file was closed.
func TestLateAnswerAfterClose(t *testing.T) {
	for rate, end := range map[int64]time.Duration{0: tripTime / 2, 10_000: 5 * time.Second} {
		withFakeServer(t, Config{}, func(p *fakeServer) {
			p.link = netLink{latency: tripTime / 2, rate: rate}
		}, func(t *testing.T, p *fakeServer, c *Client) {
			p.put(t, "f", pattern(200_000, 1))
			f, err := c.Open(t.Context(), "f")
			if err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(end, func() { _ = f.Close() })
			b := make([]byte, 100_000)
			if _, err := f.ReadAt(b, 50_000); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("ReadAt of a file that is closed: %v", err)
			}
			clear(b)
			time.Sleep(time.Minute)
			if !bytes.Equal(b, make([]byte, len(b))) {
				t.Errorf("at %d bytes a second, the answer was written to memory that is the caller's again", rate)
			}
		})
	}
}

// A write that overlaps the start of a pending one waits for it.
func TestOverlappingWritesInOrder(t *testing.T) {
	withFakeServer(t, Config{}, func(p *fakeServer) { p.link.latency = 10 * time.Millisecond }, func(t *testing.T, p *fakeServer, c *Client) {
		f, err := c.Create(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range [][2]int64{{1000, 2000}, {500, 1500}, {1400, 1600}, {0, 3000}} {
			if _, err := f.WriteAt(pattern(int(at[1]-at[0]), byte(at[0])), at[0]); err != nil {
				t.Errorf("WriteAt %d: %v", at[0], err)
			}
			if n := f.behind.Runs(); n != 1 {
				t.Errorf("with the write at %d there are %d under way", at[0], n)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if !bytes.Equal(p.get(t, "f"), pattern(3000, 0)) {
			t.Error("the file has bytes of a write before the last")
		}
	})
}

// A server may notice only at CLOSE that its disk is full, for example with a network file
// system.
func TestCloseRefused(t *testing.T) {
	withFakeServer(t, Config{}, func(p *fakeServer) {
		p.hook = func(s *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
			if q.Type != wire.TypeClose {
				return nil, false
			}
			s.answer(q)
			return wire.AppendStatus(nil, q.ID, wire.NoSpace, "full"), true
		}
	}, func(t *testing.T, p *fakeServer, c *Client) {
		write := map[string]func(f *File) error{
			"Write":    func(f *File) error { _, err := f.Write([]byte("text")); return err },
			"Sync":     func(f *File) error { _, err := f.Write([]byte("text")); return errors.Join(err, f.Sync()) },
			"ReadFrom": func(f *File) error { _, err := f.ReadFrom(bytes.NewReader([]byte("text"))); return err },
			"FillFrom": func(f *File) error {
				_, err := f.FillFrom(t.Context(), bytes.NewReader([]byte("text")), 0, 4)
				return err
			},
		}
		for name, write := range write {
			f, err := c.Create(t.Context(), "f")
			if err != nil {
				t.Fatal(err)
			}
			if err := write(f); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if err := f.Close(); !errors.Is(err, store.ErrNoSpace) {
				t.Errorf("Close after %s: %v, want no space", name, err)
			}
		}
		u, err := c.Store("").Create(t.Context(), "g", store.Create{Size: 4, NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := u.WriteAt([]byte("text"), 0); err != nil {
			t.Error(err)
		}
		if err := u.Commit(); !errors.Is(err, store.ErrNoSpace) {
			t.Errorf("Commit: %v, want no space", err)
		}
		_ = u.Close()
		if _, err := c.Stat(t.Context(), "g"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the upload that the server refused is there: %v", err)
		}
	})
}

// If some written data is not confirmed when the context ends, Close fails, and the file is
// truncated.
func TestCloseAfterContext(t *testing.T) {
	withFakeServer(t, Config{}, func(p *fakeServer) {
		p.link = netLink{latency: 10 * time.Millisecond, rate: 1 << 20}
	}, func(t *testing.T, p *fakeServer, c *Client) {
		ctx, cancel := withCancel(t)
		f, err := c.Create(ctx, "f")
		if err != nil {
			t.Fatal(err)
		}
		data := pattern(10<<20, 1)
		time.AfterFunc(2*time.Second, cancel)
		if n, err := f.Write(data); n == len(data) || !errors.Is(err, context.Canceled) {
			t.Errorf("Write = %d, %v", n, err)
		}
		if err := f.Close(); !errors.Is(err, context.Canceled) {
			t.Errorf("Close: %v", err)
		}
		if got := p.get(t, "f"); len(got) < 1<<20 || len(got) == len(data) || !bytes.Equal(got, data[:len(got)]) {
			t.Errorf("the server is left with %d bytes", len(got))
		}
	})
}

func TestFileMisuse(t *testing.T) {
	withFakeServer(t, Config{}, nil, func(t *testing.T, p *fakeServer, c *Client) {
		p.put(t, "f", []byte("0123456789"))
		r, err := c.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		w, err := c.OpenFile(t.Context(), "f", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		p10 := make([]byte, 10)
		tests := []struct {
			name string
			f    func() error
			want error
		}{
			{"write to one for reading", func() error { _, err := r.Write(p10); return err }, fs.ErrPermission},
			{"ReadFrom of it", func() error { _, err := r.ReadFrom(bytes.NewReader(p10)); return err }, fs.ErrPermission},
			{"FillFrom of it", func() error { _, err := r.FillFrom(t.Context(), bytes.NewReader(p10), 0, 10); return err }, fs.ErrPermission},
			{"Truncate of it", func() error { return r.Truncate(0) }, fs.ErrPermission},
			{"read one for writing", func() error { _, err := w.Read(p10); return err }, fs.ErrPermission},
			{"FetchTo of it", func() error { _, err := w.FetchTo(t.Context(), nowhere{}, 0); return err }, fs.ErrPermission},
			{"ReadAt before the beginning", func() error { _, err := r.ReadAt(p10, -1); return err }, fs.ErrInvalid},
			{"WriteAt before the beginning", func() error { _, err := w.WriteAt(p10, -1); return err }, fs.ErrInvalid},
			{"WriteAt behind all ends", func() error { _, err := w.WriteAt(p10, 1<<63-5); return err }, fs.ErrInvalid},
			{"Seek before the beginning", func() error { _, err := r.Seek(-1, io.SeekStart); return err }, fs.ErrInvalid},
			{"Seek to nowhere", func() error { _, err := r.Seek(0, 7); return err }, fs.ErrInvalid},
			{"no flags", func() error { _, err := c.OpenFile(t.Context(), "f", 3, 0); return err }, fs.ErrInvalid},
		}
		for _, tt := range tests {
			if err := tt.f(); !errors.Is(err, tt.want) {
				t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
			}
		}
		for _, f := range []*File{r, w} {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			if err := f.Close(); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("Close again: %v", err)
			}
			if _, err := f.Stat(); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("Stat after Close: %v", err)
			}
		}
		if _, err := r.Read(p10); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("Read after Close: %v", err)
		}
		if _, err := w.Write(p10); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("Write after Close: %v", err)
		}
	})
}

// Close interrupts pending reads.
func TestCloseWhileReading(t *testing.T) {
	withFakeServer(t, Config{}, func(p *fakeServer) { p.link.latency = tripTime / 2 }, func(t *testing.T, p *fakeServer, c *Client) {
		p.put(t, "f", pattern(50<<20, 1))
		for name, read := range map[string]func(f *File) error{
			"Read":    func(f *File) error { _, err := io.Copy(io.Discard, onlyReader{f}); return err },
			"ReadAt":  func(f *File) error { _, err := f.ReadAt(make([]byte, 50<<20), 0); return err },
			"WriteTo": func(f *File) error { _, err := f.WriteTo(io.Discard); return err },
			"FetchTo": func(f *File) error { _, err := f.FetchTo(t.Context(), nowhere{}, 0); return err },
		} {
			f, err := c.Open(t.Context(), "f")
			if err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(3*tripTime/2, func() { _ = f.Close() })
			if err := read(f); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("%s of a file that is closed: %v", name, err)
			}
			time.Sleep(100 * tripTime)
		}
	})
}

type onlyReader struct{ io.Reader }

// If a file grows while it is read, it is read to its new end. If it shrinks, reading ends at its
// new end.
func TestFileChangesSize(t *testing.T) {
	withFakeServer(t, Config{}, nil, func(t *testing.T, p *fakeServer, c *Client) {
		data := pattern(1<<20, 1)
		for _, size := range []int{0, 1000, 600_000} {
			p.put(t, "f", data[:500_000])
			h, err := p.tree.OpenFile(t.Context(), "f", store.Access{Write: true})
			if err != nil {
				t.Fatal(err)
			}
			f, err := c.Open(t.Context(), "f")
			if err != nil {
				t.Fatal(err)
			}
			if err := h.Truncate(0); err != nil {
				t.Fatal(err)
			}
			if _, err := h.WriteAt(data[:size], 0); err != nil {
				t.Fatal(err)
			}
			_ = h.Close()
			var b growingFile
			if n, err := f.FetchTo(t.Context(), &b, 0); n != int64(size) || err != nil || !bytes.Equal(b.b, data[:size]) {
				t.Errorf("FetchTo of one with %d bytes by then = %d, %v", size, n, err)
			}
			if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, data[:size]) {
				t.Errorf("ReadAll of one with %d bytes by then = %d, %v", size, len(got), err)
			}
			_ = f.Close()
		}
	})
}

package sftpclient

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"testing"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// Removing a link to a directory leaves the directory alone.
func TestRemoveAllOfALink(t *testing.T) {
	withFakeServer(t, Config{}, nil, func(t *testing.T, p *fakeServer, c *Client) {
		ctx := t.Context()
		if err := errors.Join(c.MkdirAll(ctx, "kept/dir", 0o755), c.Symlink(ctx, "kept", "link"),
			c.Mkdir(ctx, "tree", 0o755), c.Symlink(ctx, "../kept", "tree/link")); err != nil {
			t.Fatal(err)
		}
		p.put(t, "kept/dir/file", []byte("x"))
		for _, name := range []string{"link", "tree"} {
			if err := c.RemoveAll(ctx, name); err != nil {
				t.Error(err)
			}
			if _, err := c.Lstat(ctx, name); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is left: %v", name, err)
			}
		}
		if string(p.get(t, "kept/dir/file")) != "x" {
			t.Error("a link was followed")
		}
	})
}

// A failingWriter fails after `room` bytes.
type failingWriter struct {
	room int
	got  bytes.Buffer
	err  error
}

func (w *failingWriter) Write(p []byte) (int, error) {
	n := min(len(p), w.room)
	w.room -= n
	w.got.Write(p[:n])
	if n < len(p) {
		return n, w.err
	}
	return n, nil
}

// A lyingReader claims a size that is too large or too small.
type lyingReader struct {
	*bytes.Reader
	says int
}

func (r lyingReader) Len() int    { return r.says }
func (r lyingReader) Size() int64 { return int64(r.says) }

// Errors of the program's own readers and writers are reported as local, and the data that was
// moved before is correct.
func TestLocalErrors(t *testing.T) {
	withFakeServer(t, Config{}, nil, func(t *testing.T, p *fakeServer, c *Client) {
		ctx := t.Context()
		data := pattern(3<<20, 7)
		p.put(t, "file", data)
		own := errors.New("no more room here")
		f, err := c.Open(ctx, "file")
		if err != nil {
			t.Fatal(err)
		}
		w := &failingWriter{room: 1<<20 + 5, err: own}
		n, err := f.WriteTo(w)
		if transfer := (*TransferError)(nil); !errors.As(err, &transfer) || !transfer.Local || !errors.Is(err, own) {
			t.Errorf("WriteTo a writer that fails: %v", err)
		}
		if n != 1<<20+5 || !bytes.Equal(w.got.Bytes(), data[:n]) {
			t.Errorf("WriteTo = %d, and the writer has %d bytes", n, w.got.Len())
		}
		// Reading can continue at any offset.
		if _, err := f.Seek(100, io.SeekStart); err != nil {
			t.Error(err)
		}
		if b, err := io.ReadAll(f); err != nil || !bytes.Equal(b, data[100:]) {
			t.Errorf("after that %d bytes are read, %v", len(b), err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		for _, test := range []struct {
			name string
			r    io.Reader
			want []byte
			err  error
		}{
			{"says less", lyingReader{bytes.NewReader(data), 10}, data, nil},
			{"says more", lyingReader{bytes.NewReader(data), 1 << 30}, data, nil},
			{"limited to more", io.LimitReader(bytes.NewReader(data), 1<<40), data, nil},
			{"limited to less", io.LimitReader(bytes.NewReader(data), 70_000), data[:70_000], nil},
			{"fails", io.MultiReader(bytes.NewReader(data[:70_000]), failingReader{own}), data[:70_000], own},
		} {
			f, err := c.Create(ctx, "up")
			if err != nil {
				t.Fatal(err)
			}
			n, err := f.ReadFrom(test.r)
			transfer := (*TransferError)(nil)
			if n != int64(len(test.want)) || !errors.Is(err, test.err) || test.err != nil && (!errors.As(err, &transfer) || !transfer.Local) {
				t.Errorf("ReadFrom one that %s = %d, %v; want %d, %v", test.name, n, err, len(test.want), test.err)
			}
			if err := f.Close(); err != nil {
				t.Errorf("Close after one that %s: %v", test.name, err)
			}
			if got := p.get(t, "up"); !bytes.Equal(got, test.want) {
				t.Errorf("of one that %s there are %d bytes, want %d", test.name, len(got), len(test.want))
			}
		}
	})
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

// Chmod sends the setuid, setgid and sticky bits, which have other values in an fs.FileMode.
func TestSpecialModes(t *testing.T) {
	var sent []wire.Mode
	configure := func(p *fakeServer) {
		p.hook = func(_ *fakeSession, q wire.Request, reply []byte) ([]byte, bool) {
			if q.Type != wire.TypeSetstat {
				return reply, false
			}
			sent = append(sent, q.Attrs.Mode)
			return wire.AppendStatus(reply, q.ID, wire.OK, ""), true
		}
	}
	withFakeServer(t, Config{}, configure, func(t *testing.T, p *fakeServer, c *Client) {
		modes := []struct {
			mode fs.FileMode
			want wire.Mode
		}{
			{0o755, 0o755}, {fs.ModeSetuid | 0o755, 0o4755}, {fs.ModeSetgid | fs.ModeSticky | 0o700, 0o3700}, {0, 0},
		}
		for _, m := range modes {
			if err := c.Chmod(t.Context(), "file", m.mode); err != nil {
				t.Error(err)
			}
		}
		for i, m := range modes {
			if sent[i]&0o7777 != m.want {
				t.Errorf("%v is sent as %o, want %o", m.mode, sent[i], m.want)
			}
		}
	})
}

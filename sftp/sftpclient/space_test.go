package sftpclient

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// A nearlyFullTree reports a given amount of space.
type nearlyFullTree struct {
	store.Tree
	space store.Space
}

func (d nearlyFullTree) Space(context.Context, string) (store.Space, error) {
	d.space.Free = max(d.space.Free, d.space.Available) // as on any disk
	return d.space, nil
}

// If its disk is full, OpenSSH's server reports only a failure, without the reason. The client asks
// for the free space, and reports that the disk is full.
func TestServerDiskFull(t *testing.T) {
	data := pattern(1<<20, 1)
	upload := func(resume string, sync bool) func(context.Context, *Client) error {
		return func(ctx context.Context, c *Client) error {
			u, err := c.Store("").Create(ctx, "f", store.Create{Resume: resume, NoSync: !sync})
			if err != nil {
				return err
			}
			defer u.Close()
			_, err = u.(interface {
				FillFrom(context.Context, io.ReaderAt, int64, int64) (int64, error)
			}).FillFrom(ctx, bytes.NewReader(data), 0, int64(len(data)))
			return errors.Join(err, u.Commit())
		}
	}
	file := func(write func(ctx context.Context, f *File) error) func(context.Context, *Client) error {
		return func(ctx context.Context, c *Client) error {
			f, err := c.Create(ctx, "f")
			if err != nil {
				return err
			}
			return errors.Join(write(ctx, f), f.Close())
		}
	}
	tests := []struct {
		name   string
		refuse wire.Type
		do     func(context.Context, *Client) error
	}{
		{"Write", wire.TypeWrite, file(func(_ context.Context, f *File) error { _, err := f.Write(data); return err })},
		{"WriteAt and Sync", wire.TypeWrite, file(func(_ context.Context, f *File) error {
			_, err := f.WriteAt(data, 5)
			return errors.Join(err, f.Sync())
		})},
		{"ReadFrom", wire.TypeWrite, file(func(_ context.Context, f *File) error { _, err := f.ReadFrom(bytes.NewReader(data)); return err })},
		{"FillFrom", wire.TypeWrite, file(func(ctx context.Context, f *File) error {
			_, err := f.FillFrom(ctx, bytes.NewReader(data), 0, int64(len(data)))
			return err
		})},
		{"upload", wire.TypeWrite, upload("", true)},
		{"upload to be resumed", wire.TypeWrite, upload("me", true)},
		{"upload that cannot begin", wire.TypeOpen, upload("", true)},
		{"upload to be resumed that cannot begin", wire.TypeOpen, upload("me", true)},
		{"upload that fails at FSYNC", wire.TypeExtended, upload("", true)},
		{"upload that fails at CLOSE", wire.TypeClose, upload("", false)},
		{"new file", wire.TypeOpen, func(ctx context.Context, c *Client) error {
			f, err := c.Store("").OpenFile(ctx, "f", store.Access{Write: true, Create: true})
			if err == nil {
				_ = f.Close()
			}
			return err
		}},
		{"directory", wire.TypeMkdir, func(ctx context.Context, c *Client) error { return c.Store("").Mkdir(ctx, "d", 0) }},
	}
	const gigabyte = 1 << 30
	disks := []struct {
		name  string
		space store.Space
		full  bool
	}{
		{"full", store.Space{Total: gigabyte, Free: gigabyte / 20, Available: 0, BlockSize: 4096}, true},
		{"nearly full", store.Space{Total: gigabyte, Available: 200 << 10, BlockSize: 4096}, true},
		{"without room for files", store.Space{Total: gigabyte, Available: gigabyte, BlockSize: 4096, Files: 100}, true},
		{"with room", store.Space{Total: gigabyte, Available: gigabyte / 2, BlockSize: 4096, Files: 100, AvailableFiles: 5}, false},
		{"with any number of files", store.Space{Total: gigabyte, Available: gigabyte / 2, BlockSize: 4096}, false},
		{"of unknown size", store.Space{BlockSize: 4096}, false},
	}
	for _, disk := range disks {
		for _, tt := range tests {
			withFakeServer(t, Config{}, func(p *fakeServer) {
				p.tree = nearlyFullTree{p.tree, disk.space}
				p.hook = func(_ *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
					refused := q.Type == tt.refuse && (q.Type != wire.TypeOpen || q.Flags&wire.OpenCreate != 0) &&
						(q.Type != wire.TypeExtended || q.Extension == wire.ExtFsync)
					if !refused {
						return nil, false
					}
					return wire.AppendStatus(nil, q.ID, wire.Failure, "Failure"), true
				}
			}, func(t *testing.T, p *fakeServer, c *Client) {
				err := tt.do(t.Context(), c)
				if err == nil || errors.Is(err, store.ErrNoSpace) != disk.full || !IsRemote(err) {
					t.Errorf("%s, disk %s: %v", tt.name, disk.name, err)
					return
				}
				if has := strings.Contains(err.Error(), "the server has no space left on its disk"); has != disk.full {
					t.Errorf("%s, disk %s: says %v", tt.name, disk.name, err)
				}
				if disk.full && strings.Contains(err.Error(), "status 4") {
					t.Errorf("%s, disk %s: %v still says failure", tt.name, disk.name, err)
				}
			})
		}
	}
}

// The client remembers for a while that the disk is full. So files that fail together fail with the
// same error, even if removing the first ones has made room. Other refusals stay the same.
func TestServerDiskFullTogether(t *testing.T) {
	withFakeServer(t, Config{}, func(p *fakeServer) {
		p.hook = func(_ *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
			if q.Type != wire.TypeWrite {
				return nil, false
			}
			status := wire.Failure
			if bytes.HasPrefix(q.Data, []byte("no")) {
				status = wire.PermissionDenied
			}
			return wire.AppendStatus(nil, q.ID, status, ""), true
		}
	}, func(t *testing.T, p *fakeServer, c *Client) {
		write := func(text string) error {
			f, err := c.OpenFile(t.Context(), "f", os.O_WRONLY|os.O_CREATE, 0o600)
			if err != nil {
				return err
			}
			_, err = f.WriteAt([]byte(text), 0)
			return errors.Join(err, f.Close())
		}
		mem := p.tree
		p.tree = nearlyFullTree{mem, store.Space{Total: 1 << 30, BlockSize: 4096}}
		if err := write("text"); !errors.Is(err, store.ErrNoSpace) {
			t.Errorf("full: %v", err)
		}
		p.tree = nearlyFullTree{mem, store.Space{Total: 1 << 30, Available: 1 << 30, BlockSize: 4096}}
		if err := write("text"); !errors.Is(err, store.ErrNoSpace) {
			t.Errorf("just after: %v", err)
		}
		if err := write("no text"); errors.Is(err, store.ErrNoSpace) {
			t.Errorf("refused for another reason: %v", err)
		}
		time.Sleep(fullFor)
		if err := write("text"); err == nil || errors.Is(err, store.ErrNoSpace) {
			t.Errorf("later: %v", err)
		}
	})
}

// A large upload is refused before a byte is sent if, and only if, the disk cannot hold it. Space
// that is reserved for the administrator counts as free, and a file system that does not know its
// size refuses nothing.
func TestAsksForRoom(t *testing.T) {
	const size = 200 << 20
	for name, c := range map[string]struct {
		space store.Space
		says  string // the error; "" if the upload begins
	}{
		"too small":             {store.Space{Total: 1 << 30, Free: 100 << 20, Available: 100 << 20, BlockSize: 4096}, "104.9 MB free on its disk, and the file has 209.7 MB"},
		"for the administrator": {store.Space{Total: 1 << 30, Free: size, BlockSize: 4096}, ""},
		"without a size":        {store.Space{BlockSize: 4096}, ""},
	} {
		for _, resume := range []string{"", "me"} {
			withFakeServer(t, Config{}, func(p *fakeServer) { p.tree = nearlyFullTree{p.tree, c.space} }, func(t *testing.T, _ *fakeServer, client *Client) {
				u, err := client.Store("").Create(t.Context(), "f", store.Create{Size: size, Resume: resume, Source: "s"})
				if err == nil {
					err = u.Close()
				}
				if errors.Is(err, store.ErrNoSpace) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s, resume %q: %v; want %q", name, resume, err, c.says)
				}
			})
		}
	}
}

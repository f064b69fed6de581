package sftpclient

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/internal/tempname"
	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/users"
)

// A client can upload to a drop box, even over several connections. If an earlier upload was cut
// off, it starts from the beginning.
func TestUploadOnlyAccount(t *testing.T) {
	data := pattern(3<<20, 1)
	for _, hidden := range []bool{false, true} {
		tree := store.Mem(0)
		h := newHaulHost(t, tree, hidden)
		h.server.Login = func(context.Context, *ssh.ServerConn) (*sftp.Account, error) {
			return &sftp.Account{User: "me", Tree: tree, Hidden: hidden, Access: users.UploadOnly}, nil
		}
		put := func(c *Client, name string, o store.Create, end func(store.Upload) error) {
			t.Helper()
			o.Size = int64(len(data))
			u, err := c.Store("").Create(t.Context(), name, o)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := u.WriteAt(data, 0); err != nil {
				t.Error(err)
			}
			mode := then0640()
			if err := u.(interface{ SetAttr(store.Attr) error }).SetAttr(mode); err != nil {
				t.Error(err)
			}
			if err := end(u); err != nil {
				t.Errorf("hidden %v: %s: %v", hidden, name, err)
			}
		}
		kept := store.Create{Resume: "me", Source: "this"}
		c, _ := h.client(t, Config{})
		put(c, "plain", store.Create{}, store.Upload.Commit)
		put(c, "quick", store.Create{NoSync: true}, store.Upload.Commit)
		put(c, "kept", kept, store.Upload.Commit)
		put(c, "discarded", store.Create{}, store.Upload.Close)
		put(c, "again", kept, store.Upload.Close)
		_ = c.Close()
		c, over := h.client(t, Config{})
		put(c, "again", kept, store.Upload.Commit)
		over()
		list, err := tree.ReadDir(t.Context(), ".")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			fi, err := tree.Stat(t.Context(), e.Name())
			if err != nil || isUpload(e.Name()) {
				t.Fatalf("hidden %v: there is %s, %v", hidden, e.Name(), err)
			}
			f, err := tree.Open(t.Context(), e.Name())
			if err != nil {
				t.Fatal(err)
			}
			b := make([]byte, fi.Size())
			if _, err := f.ReadAt(b, 0); err != nil || !bytes.Equal(b, data) || fi.Mode().Perm() != 0o640 || !fi.ModTime().Equal(time.Unix(1_000_000_000, 0)) {
				t.Errorf("hidden %v: %s is %v, %v", hidden, e.Name(), fi, err)
			}
			_ = f.Close()
		}
		if len(list) != 4 {
			t.Errorf("hidden %v: there are %d files, want 4", hidden, len(list))
		}
	}
}

// The names of records are derived from those of files, so they are not secret. A user who knows
// such a name can neither change nor remove another user's record. If the name of an upload's
// record is in use, the upload works without a record.
func TestServerUploadOnlyRecords(t *testing.T) {
	for _, account := range []sftp.Account{{Access: users.UploadOnly}, {Access: users.UploadOnly, Hidden: true}, {CreateOnly: true}, {CreateOnly: true, Hidden: true}} {
		hidden := account.Hidden
		tree := store.Mem(0)
		h := newHaulHost(t, tree, hidden)
		h.server.Login = func(context.Context, *ssh.ServerConn) (*sftp.Account, error) {
			a := account
			a.User, a.Tree = "me", tree
			return &a, nil
		}
		record := tempname.New(tempname.Resume("me", "file"), tempname.Record)
		f, err := tree.OpenFile(t.Context(), record, store.Access{Write: true, Create: true, Perm: firstPerm})
		if err == nil {
			_, err = f.WriteAt([]byte("another's"), 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		c, over := h.client(t, Config{})
		if w, err := c.OpenFile(t.Context(), record, os.O_WRONLY, 0); !errors.Is(err, fs.ErrPermission) {
			t.Fatalf("hidden %v: another's record is opened: %v, %v", hidden, w, err)
		}
		if r, err := c.Open(t.Context(), record); !errors.Is(err, fs.ErrPermission) {
			t.Fatalf("hidden %v: another's record is read: %v, %v", hidden, r, err)
		}
		for what, err := range map[string]error{
			"removed": c.RemoveFile(t.Context(), record),
			"renamed": c.Rename(t.Context(), record, "mine"),
			"cut":     c.SetAttr(t.Context(), record, store.Attr{Size: new(int64)}, true),
		} {
			if !errors.Is(err, fs.ErrPermission) {
				t.Errorf("hidden %v: another's record is %s: %v", hidden, what, err)
			}
		}
		for _, end := range []func(store.Upload) error{store.Upload.Close, store.Upload.Commit} {
			u, err := c.Store("").Create(t.Context(), "file", store.Create{Size: 4, Resume: "me", Source: "this"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := u.WriteAt([]byte("data"), 0); err != nil {
				t.Error(err)
			}
			if err := end(u); err != nil {
				t.Errorf("hidden %v: %v", hidden, err)
			}
		}
		over()
		list, err := tree.ReadDir(t.Context(), ".")
		if err != nil || len(list) != 2 || list[0].Name() != record || list[1].Name() != "file" {
			t.Errorf("hidden %v: there are %v, %v", hidden, list, err)
		}
		if fi, err := tree.Stat(t.Context(), record); err != nil || fi.Size() != int64(len("another's")) {
			t.Errorf("hidden %v: the record is %v, %v", hidden, fi, err)
		}
	}
}

// then0640 returns a mode and a time to set.
func then0640() store.Attr {
	mode := fs.FileMode(0o640)
	return store.Attr{Mode: &mode, ModTime: time.Unix(1_000_000_000, 0)}
}

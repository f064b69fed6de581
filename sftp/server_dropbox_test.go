package sftp

import (
	"bytes"
	"context"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/users"
)

// This package's own client uploads to a drop box, by several connections too,
// and begins anew where an earlier upload was cut off.
func TestServerUploadOnlyClient(t *testing.T) {
	data := clientPattern(3<<20, 1)
	for _, hidden := range []bool{false, true} {
		tree := store.Mem(0)
		h := newHaulHost(t, tree, hidden)
		h.server.Login = func(context.Context, *ssh.ServerConn) (*Account, error) {
			return &Account{User: "me", Tree: tree, Hidden: hidden, Access: users.UploadOnly}, nil
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
			if err := u.(store.AttrUpload).SetAttr(mode); err != nil {
				t.Error(err)
			}
			if err := end(u); err != nil {
				t.Errorf("hidden %v: %s: %v", hidden, name, err)
			}
		}
		kept := store.Create{Resume: "me", Source: "this"}
		c, _ := h.client(t, ClientConfig{})
		put(c, "plain", store.Create{}, store.Upload.Commit)
		put(c, "quick", store.Create{NoSync: true}, store.Upload.Commit)
		put(c, "kept", kept, store.Upload.Commit)
		put(c, "discarded", store.Create{}, store.Upload.Close)
		put(c, "again", kept, store.Upload.Close)
		_ = c.Close()
		c, over := h.client(t, ClientConfig{})
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
			if _, err := f.ReadAt(b, 0); err != nil || !bytes.Equal(b, data) || fi.Mode().Perm() != 0o640 || !fi.ModTime().Equal(serverThen) {
				t.Errorf("hidden %v: %s is %v, %v", hidden, e.Name(), fi, err)
			}
			_ = f.Close()
		}
		if len(list) != 4 {
			t.Errorf("hidden %v: there are %d files, want 4", hidden, len(list))
		}
	}
}

// then0640 are a mode and a time to be set.
func then0640() store.Attr {
	a := attrOfMode(0o640)
	a.ModTime = serverThen
	return a
}

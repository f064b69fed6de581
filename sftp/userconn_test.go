package sftp

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// serveOne serves one session without SSH. It returns the client's end, and a channel for the
// result of ServeSession.
func serveOne(t *testing.T, ctx context.Context, s *Server, a *Account) (*sftpPeer, <-chan error) {
	client, server := newWires("192.0.2.1")
	ended := make(chan error, 1)
	go func() { ended <- s.ServeSession(ctx, server, a) }()
	t.Cleanup(func() { client.Close() })
	return &sftpPeer{t: t, rw: client}, ended
}

// A session works without SSH, and the hooks are called as with SSH. If a client disconnects,
// nothing remains of the upload that it has not closed.
func TestServeSession(t *testing.T) {
	var reported []string
	s := &Server{
		Connected:    func(c *Conn) { reported = append(reported, "connected "+c.User) },
		Disconnected: func(c *Conn) { reported = append(reported, "disconnected "+c.Peer.String()) },
		Ended: func(tr *Transfer) {
			if errors.Is(tr.Err, ErrAbandoned) {
				reported = append(reported, "abandoned "+tr.Name)
			}
		},
	}
	closed := false
	tree := store.Mem(0)
	p, ended := serveOne(t, t.Context(), s, &Account{User: "alice", Tree: tree, Dir: "home", Hidden: true, Close: func() { closed = true }})
	p.begin()
	if got := p.name(wire.AppendRealpath(nil, p.n(), ".")); got != "/home" {
		t.Errorf("the session begins in %s", got)
	}
	p.put("/file", "content")
	p.wantFile("/file", "content")
	p.write(p.open("/half", openAnew), 0, "half")
	p.rw.(*wireEnd).Close()
	if err := <-ended; err != nil {
		t.Errorf("the client has left: %v", err)
	}
	if _, err := tree.Stat(t.Context(), "half"); err == nil {
		t.Error("a half file is there")
	}
	want := []string{"connected alice", "abandoned /half", "disconnected 192.0.2.1:50000"}
	if !slices.Equal(reported, want) || !closed {
		t.Errorf("reported %q, want %q; closed: %v", reported, want, closed)
	}
	if c := s.Counters(); c.Sessions != 0 || c.Handles != 0 || c.Received == 0 {
		t.Errorf("counters at the end: %+v", c)
	}
}

// The end of the context ends a session that waits for its client, and discards its unfinished
// uploads.
func TestServeSessionEnds(t *testing.T) {
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	s, tree := &Server{}, store.Mem(0)
	var last error
	s.Ended = func(tr *Transfer) { last = tr.Err }
	p, ended := serveOne(t, ctx, s, &Account{Tree: tree, Hidden: true})
	p.begin()
	p.write(p.open("half", openAnew), 0, "half")
	cancel(why)
	if err := <-ended; err != why {
		t.Errorf("it ends by %v", err)
	}
	if !errors.Is(last, ErrEnded) || !errors.Is(last, why) {
		t.Errorf("the upload ends by %v", last)
	}
	if _, err := tree.Stat(t.Context(), "half"); err == nil {
		t.Error("a half file is there")
	}
}

// Invalid SFTP ends the session with an error, and so does a panic in a hook.
func TestServeSessionBroken(t *testing.T) {
	for what, bytes := range map[string]string{
		"text":         "GET / HTTP/1.1\r\n\r\n",
		"length":       "\xff\xff\xff\xff",
		"no INIT":      string(wire.AppendRealpath(nil, 1, ".")),
		"cut":          string(wire.AppendInit(nil, 3)) + "\x00\x00",
		"cut in a put": string(wire.AppendWrite(wire.AppendInit(nil, 3), 1, "12345678", 0, make([]byte, 99)))[:60],
	} {
		p, ended := serveOne(t, t.Context(), &Server{}, &Account{Tree: store.Mem(0)})
		p.send([]byte(bytes))
		p.rw.(*wireEnd).Close()
		if err := <-ended; err == nil {
			t.Errorf("%s: the session ends well", what)
		}
	}
	p, ended := serveOne(t, t.Context(), &Server{Audit: func(*Operation) { panic("a hook") }}, &Account{Tree: store.Mem(0)})
	p.begin()
	p.send(wire.AppendMkdir(nil, p.n(), "dir", wire.Attrs{}))
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "a hook") {
		t.Errorf("a panic ends the session by %v", err)
	}
}

func TestServeSessionAccount(t *testing.T) {
	for _, a := range []*Account{nil, {}, {Tree: store.Mem(0), Refused: []string{"open", "opem"}}} {
		_, server := newWires("192.0.2.1")
		if err := new(Server).ServeSession(t.Context(), server, a); err == nil {
			t.Errorf("%+v is served", a)
		}
		if _, err := server.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Error("the connection stays open")
		}
	}
}

// Each kind of request can be refused separately. If it is an extension, it is not announced
// then.
func TestRefusedRequests(t *testing.T) {
	packets := map[string]func(id uint32, h string) []byte{
		"open":     func(id uint32, _ string) []byte { return wire.AppendOpen(nil, id, "file", wire.OpenRead, wire.Attrs{}) },
		"close":    func(id uint32, h string) []byte { return wire.AppendClose(nil, id, h) },
		"read":     func(id uint32, h string) []byte { return wire.AppendRead(nil, id, h, 0, 1) },
		"write":    func(id uint32, h string) []byte { return wire.AppendWrite(nil, id, h, 0, []byte("x")) },
		"lstat":    func(id uint32, _ string) []byte { return wire.AppendLstat(nil, id, "file") },
		"fstat":    func(id uint32, h string) []byte { return wire.AppendFstat(nil, id, h) },
		"setstat":  func(id uint32, _ string) []byte { return wire.AppendSetstat(nil, id, "file", wire.Attrs{}) },
		"fsetstat": func(id uint32, h string) []byte { return wire.AppendFsetstat(nil, id, h, wire.Attrs{}) },
		"opendir":  func(id uint32, _ string) []byte { return wire.AppendOpendir(nil, id, "/") },
		"readdir":  func(id uint32, h string) []byte { return wire.AppendReaddir(nil, id, h) },
		"remove":   func(id uint32, _ string) []byte { return wire.AppendRemove(nil, id, "file") },
		"mkdir":    func(id uint32, _ string) []byte { return wire.AppendMkdir(nil, id, "dir", wire.Attrs{}) },
		"rmdir":    func(id uint32, _ string) []byte { return wire.AppendRmdir(nil, id, "dir") },
		"realpath": func(id uint32, _ string) []byte { return wire.AppendRealpath(nil, id, ".") },
		"stat":     func(id uint32, _ string) []byte { return wire.AppendStat(nil, id, "file") },
		"rename":   func(id uint32, _ string) []byte { return wire.AppendRename(nil, id, "file", "new") },
		"readlink": func(id uint32, _ string) []byte { return wire.AppendReadlink(nil, id, "link") },
		"symlink":  func(id uint32, _ string) []byte { return wire.AppendSymlink(nil, id, "file", "link") },

		"posix-rename":       func(id uint32, _ string) []byte { return wire.AppendPosixRename(nil, id, "file", "new") },
		"statvfs":            func(id uint32, _ string) []byte { return wire.AppendStatVFS(nil, id, "/") },
		"fstatvfs":           func(id uint32, h string) []byte { return wire.AppendFstatVFS(nil, id, h) },
		"hardlink":           func(id uint32, _ string) []byte { return wire.AppendHardlink(nil, id, "file", "new") },
		"fsync":              func(id uint32, h string) []byte { return wire.AppendFsync(nil, id, h) },
		"lsetstat":           func(id uint32, _ string) []byte { return wire.AppendLsetstat(nil, id, "file", wire.Attrs{}) },
		"limits":             func(id uint32, _ string) []byte { return wire.AppendLimits(nil, id) },
		"expand-path":        func(id uint32, _ string) []byte { return wire.AppendExpandPath(nil, id, "~") },
		"copy-data":          func(id uint32, h string) []byte { return wire.AppendCopyData(nil, id, h, 0, 0, h, 0) },
		"home-directory":     func(id uint32, _ string) []byte { return wire.AppendHomeDirectory(nil, id, "") },
		"users-groups-by-id": func(id uint32, _ string) []byte { return wire.AppendUsersGroupsByID(nil, id, []uint32{0}, nil) },
		"check-file-handle":  func(id uint32, h string) []byte { return wire.AppendCheckFileHandle(nil, id, h, "md5", 0, 0, 0) },
		"check-file-name":    func(id uint32, _ string) []byte { return wire.AppendCheckFileName(nil, id, "file", "md5", 0, 0, 0) },
		"check-file":         func(id uint32, h string) []byte { return wire.AppendCheckFile(nil, id, h, "md5", 0, 0, 0) },
	}
	for _, name := range Requests() {
		packet := packets[name]
		if packet == nil {
			t.Errorf("there is no packet here for %s", name)
			continue
		}
		tree := store.Mem(0)
		fill, _ := serveOne(t, t.Context(), &Server{}, &Account{Tree: tree})
		fill.begin()
		fill.put("file", "content")
		var refused []string
		server := &Server{Audit: func(o *Operation) { refused = append(refused, o.What+" "+o.Name) }}
		p, _ := serveOne(t, t.Context(), server, &Account{Tree: tree, Refused: []string{name}})
		p.send(wire.AppendInit(nil, 3))
		version := p.reply()
		for announced := range version.Pairs.All() {
			if extensionName(string(announced)) == name {
				t.Errorf("%s is announced", name)
			}
		}
		h := "12345678"
		if name != "open" {
			h = p.open("file", wire.OpenRead|wire.OpenWrite)
		}
		p.want(wire.PermissionDenied, packet(p.n(), h))
		if name != "stat" {
			p.stat("file")
		}
		if len(refused) != 1 || !strings.HasPrefix(refused[0], name+" /") {
			t.Errorf("of %s is reported %q", name, refused)
		}
	}
}

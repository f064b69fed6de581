package sftp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/penalty"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/users"
)

// FuzzSession passes bytes to a session as if a client sent them. The session must not panic,
// hang or send an invalid reply, and must not leave anything open. The first byte selects the
// kind of account.
//
// Handles are the server's secret, so "\xfe\xfe\xfe\xfe" and a following byte in a request are
// replaced with the handle of that number.
func FuzzSession(f *testing.F) {
	mark := func(n byte) string { return "\xfe\xfe\xfe\xfe" + string(n) + "xyz" }
	init := wire.AppendInit(nil, 3)
	seed := func(packets ...[]byte) {
		for kind := range byte(8) {
			f.Add(append([]byte{kind}, bytes.Join(append([][]byte{init}, packets...), nil)...))
		}
	}
	var a wire.Attrs
	a.SetSize(3)
	a.SetMode(0o600)
	a.SetTimes(testTime, testTime)
	seed()
	seed(wire.AppendOpen(nil, 1, "new", openAnew, a), wire.AppendWrite(nil, 2, mark(0), 5, []byte("data")),
		wire.AppendFsetstat(nil, 3, mark(0), a), wire.AppendFstat(nil, 4, mark(0)), wire.AppendClose(nil, 5, mark(0)))
	seed(wire.AppendOpen(nil, 1, "file", wire.OpenRead|wire.OpenWrite, a), wire.AppendRead(nil, 2, mark(0), 1, 1<<20),
		wire.AppendFsync(nil, 3, mark(0)), wire.AppendFstatVFS(nil, 4, mark(0)))
	seed(wire.AppendOpen(nil, 1, "new", openAnew, a), wire.AppendOpen(nil, 2, "file", wire.OpenRead, a),
		wire.AppendCopyData(nil, 3, mark(1), 0, 0, mark(0), 7), wire.AppendOpen(nil, 4, "new", wire.OpenWrite, a),
		wire.AppendRename(nil, 5, "new", "newer"), wire.AppendWrite(nil, 6, mark(0), 0, []byte("x")))
	seed(wire.AppendOpendir(nil, 1, "."), wire.AppendReaddir(nil, 2, mark(0)), wire.AppendReaddir(nil, 3, mark(0)))
	seed(wire.AppendMkdir(nil, 1, "d", a), wire.AppendSymlink(nil, 2, "../..", "d/l"), wire.AppendReadlink(nil, 3, "d/l"),
		wire.AppendHardlink(nil, 4, "file", "d/h"), wire.AppendPosixRename(nil, 5, "d/h", "file"), wire.AppendRmdir(nil, 6, "d"),
		wire.AppendRemove(nil, 7, "d/l"), wire.AppendSetstat(nil, 8, "file", a), wire.AppendLsetstat(nil, 9, "d/l", a))
	seed(wire.AppendRealpath(nil, 1, "../x"), wire.AppendExpandPath(nil, 2, "~"), wire.AppendHomeDirectory(nil, 3, ""),
		wire.AppendStatVFS(nil, 4, "/"), wire.AppendLimits(nil, 5), wire.AppendUsersGroupsByID(nil, 6, []uint32{1}, []uint32{2}))
	seed(wire.AppendOpen(nil, 1, "file", wire.OpenRead, a), wire.AppendCheckFileHandle(nil, 2, mark(0), "md5,sha256", 1, 0, 0),
		wire.AppendCheckFileName(nil, 3, "file", "sha1", 0, 0, 256))
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) == 0 || len(script) > 1<<16 {
			return
		}
		tree := store.Mem(1 << 20)
		if u, err := tree.Create(t.Context(), "file", store.Create{}); err != nil {
			t.Fatal(err)
		} else if _, err := u.WriteAt([]byte("content"), 0); err != nil || u.Commit() != nil {
			t.Fatal(err)
		}
		server := &Server{MaxHandles: 4}
		server.shared.once.Do(server.init)
		_, nc := newWires("192.0.2.1")
		v, err := new(penalty.Guard).Admit(time.Now(), mustAddr("192.0.2.1:1").Addr())
		if err != nil {
			t.Fatal(err)
		}
		c := newServerConn(server, t.Context(), nc, v)
		c.enter(&Account{User: "alice", Tree: tree, Hidden: script[0]&1 != 0, Access: users.Access(script[0] >> 1 & 3), Dir: "home"})
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		rw := &fuzzedStream{in: script[1:]}
		s := newSession(ctx, &c.userConn, rw)
		rw.session = s
		err = s.serve()
		if ctx.Err() != nil {
			t.Fatal("it hangs")
		}
		for rest := rw.out.Bytes(); len(rest) > 0; {
			n, lengthErr := wire.PacketLength(rest)
			if lengthErr != nil || n == 0 || n > len(rest) {
				t.Fatalf("no packet: %x", rest[:min(20, len(rest))])
			}
			if _, err := wire.ParseReply(rest[:n]); err != nil {
				t.Fatalf("no reply: %v", err)
			}
			rest = rest[n:]
		}
		if n := c.handles.Load(); n != 0 || server.Counters().Handles != 0 {
			t.Errorf("%d handles are left", n)
		}
		if n := len(server.shared.pending.byKey); n != 0 {
			t.Errorf("%d uploads are left", n)
		}
		c.leave()
		var wireErr *wire.Error
		if err != nil && !errors.As(err, &wireErr) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, errRequestBeforeInit) {
			t.Errorf("it ends by %v", err)
		}
	})
}

// A fuzzedStream is a channel on which the fuzzed bytes arrive, and which keeps the replies.
type fuzzedStream struct {
	in      []byte
	out     bytes.Buffer
	session *session
}

// Read returns one packet at a time, if there is one, so that the handles in it are known.
func (f *fuzzedStream) Read(p []byte) (int, error) {
	if len(f.in) == 0 {
		return 0, io.EOF
	}
	n := len(f.in)
	if size, err := wire.PacketLength(f.in); err == nil && size > 0 && size < n {
		n = size
	}
	n = copy(p, f.in[:n])
	for rest := p[:n]; ; {
		at := bytes.Index(rest, []byte("\xfe\xfe\xfe\xfe"))
		if at < 0 || len(rest) < at+handleSize {
			break
		}
		number := int(rest[at+4])
		for h := range f.session.handles.all() {
			if int(binary.BigEndian.Uint32([]byte(h.key))) == number {
				copy(rest[at:], h.key)
			}
		}
		rest = rest[at+handleSize:]
	}
	f.in = f.in[n:]
	return n, nil
}

func (f *fuzzedStream) Write(p []byte) (int, error) { return f.out.Write(p) }

package sftp

import (
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
)

func TestLimits(t *testing.T) {
	p := newTestSession(t, func(s *Server, _ *Account) { s.MaxHandles = 77 })
	r := p.ask(wire.AppendLimits(nil, p.n()))
	l, err := r.Limits()
	if err != nil || l != (wire.Limits{Packet: 256 << 10, Read: 255 << 10, Write: 255 << 10, Handles: 77}) {
		t.Errorf("limits are %+v, %v", l, err)
	}
	// The announced limits work, in both directions.
	data := testBytes(int(l.Write))
	h := p.open("file", openAnew|wire.OpenRead)
	p.write(h, 0, data)
	if got, _ := p.read(h, 0, uint32(l.Read)); got != data {
		t.Errorf("%d bytes came back of %d", len(got), len(data))
	}
	p.close(h)
}

func TestStatVFS(t *testing.T) {
	p := newTestSession(t, nil)
	h := p.open("file", openAnew)
	p.write(h, 0, testBytes(100_000))
	for _, packet := range [][]byte{wire.AppendStatVFS(nil, p.n(), "/"), wire.AppendFstatVFS(nil, p.n(), h)} {
		p.id = wireID(packet)
		r := p.ask(packet)
		v, err := r.StatVFS()
		if err != nil || v.FragmentSize == 0 || v.Blocks*v.FragmentSize != 64<<20 || v.FreeBlocks >= v.Blocks || v.MaxName == 0 {
			t.Errorf("statvfs: %+v, %v", v, err)
		}
	}
	p.want(wire.NoSuchFile, wire.AppendStatVFS(nil, p.n(), "none"))
	p.close(h)
}

func TestOwners(t *testing.T) {
	names := func(s wire.Strings) (all []string) {
		for n := range s.All() {
			all = append(all, string(n))
		}
		return all
	}
	owner := func(id uint32, group bool) string {
		if id == 9 {
			return strings.Repeat("x", 1000)
		}
		if id > 5 {
			return ""
		}
		return fmt.Sprint(id, group)
	}
	for _, hook := range []func(uint32, bool) string{nil, owner} {
		p := newTestSession(t, func(s *Server, _ *Account) { s.Owner = hook })
		r := p.ask(wire.AppendUsersGroupsByID(nil, p.n(), []uint32{0, 7, 9, 1}, []uint32{5}))
		users, groups, err := r.UsersGroups()
		if err != nil {
			t.Fatal(err)
		}
		wantUsers, wantGroups := []string{"", "", "", ""}, []string{""}
		if hook != nil {
			wantUsers, wantGroups = []string{"0 false", "", "", "1 false"}, []string{"5 true"}
		}
		if !slices.Equal(names(users), wantUsers) || !slices.Equal(names(groups), wantGroups) {
			t.Errorf("names are %q and %q", names(users), names(groups))
		}
		p.want(wire.BadMessage, wire.AppendUsersGroupsByID(nil, p.n(), make([]uint32, maxOwners), []uint32{1}))
		if r := p.ask(wire.AppendUsersGroupsByID(nil, p.n(), make([]uint32, maxOwners), nil)); r.Type != wire.TypeExtendedReply {
			t.Errorf("as many as can be: %v", r.Type)
		}
	}
	// With names of any length, no reply is too long for the client.
	p := newTestSession(t, func(s *Server, _ *Account) {
		s.Owner = func(uint32, bool) string { return strings.Repeat("x", maxOwnerName) }
	})
	p.want(wire.Failure, wire.AppendUsersGroupsByID(nil, p.n(), make([]uint32, maxOwners), nil))
}

func TestCopyData(t *testing.T) {
	p := newTestSession(t, nil)
	data := testBytes(700_000)
	h := p.open("from", openAnew|wire.OpenRead)
	for off := 0; off < len(data); off += 100_000 {
		p.write(h, int64(off), data[off:off+100_000])
	}
	to := p.open("to", openAnew|wire.OpenRead)
	p.want(wire.OK, wire.AppendCopyData(nil, p.n(), h, 0, 0, to, 0))
	p.wantFile("to", data)
	p.want(wire.OK, wire.AppendCopyData(nil, p.n(), h, 5, 10, to, 2))
	p.wantFile("to", data[:2]+data[5:15]+data[12:])
	p.want(wire.OK, wire.AppendCopyData(nil, p.n(), h, int64(len(data))-3, 0, to, 0))
	p.want(wire.OK, wire.AppendCopyData(nil, p.n(), h, int64(len(data))-3, 3, to, 0))
	p.want(wire.EOF, wire.AppendCopyData(nil, p.n(), h, int64(len(data))-3, 4, to, 0))
	p.want(wire.OK, wire.AppendCopyData(nil, p.n(), h, int64(len(data))+3, 0, to, 0))
	p.want(wire.Failure, wire.AppendCopyData(nil, p.n(), h, 0, 0, h, 10))
	p.want(wire.Failure, wire.AppendCopyData(nil, p.n(), h, 0, 0, "none", 10))
	p.want(wire.Failure, wire.AppendCopyData(nil, p.n(), "none", 0, 0, h, 10))
	same := p.open("from", wire.OpenRead|wire.OpenWrite)
	p.want(wire.Failure, wire.AppendCopyData(nil, p.n(), h, 0, 0, same, 10))
	reader := p.open("to", wire.OpenRead)
	p.want(wire.PermissionDenied, wire.AppendCopyData(nil, p.n(), h, 0, 0, reader, 0))
	writer := p.open("other", openAnew)
	p.want(wire.PermissionDenied, wire.AppendCopyData(nil, p.n(), writer, 0, 0, to, 0))

	q := newTestSession(t, hideUploads)
	q.put("from", data[:1000])
	h = q.open("from", wire.OpenRead)
	to = q.open("to", openAnew)
	q.want(wire.OK, wire.AppendCopyData(nil, q.n(), h, 0, 0, to, 0))
	x := q.open("x", openAnew)
	q.want(wire.PermissionDenied, wire.AppendCopyData(nil, q.n(), to, 0, 0, x, 0))
	// The file is complete and published, although asyncssh's remote_copy never closes it.
	q.wantFile("to", data[:1000])
	q.write(to, 1000, "more")
	q.close(to)
	q.wantFile("to", data[:1000]+"more")
	to = q.open("part", openAnew)
	q.want(wire.OK, wire.AppendCopyData(nil, q.n(), h, 0, 10, to, 0))
	d := q.stat("part")
	if _, listed := q.listed("/", "part"); listed || d.Size != 10 {
		t.Errorf("a part of a file shows, or is %+v", d)
	}
}

func TestCheckFile(t *testing.T) {
	p := newTestSession(t, nil)
	data := testBytes(250_000)
	p.put("file", data)
	p.put("empty", "")
	h := p.open("file", wire.OpenRead)
	sums := map[string]func(b string) string{
		"md5":    func(b string) string { s := md5.Sum([]byte(b)); return string(s[:]) },
		"sha1":   func(b string) string { s := sha1.Sum([]byte(b)); return string(s[:]) },
		"sha224": func(b string) string { s := sha256.Sum224([]byte(b)); return string(s[:]) },
		"sha256": func(b string) string { s := sha256.Sum256([]byte(b)); return string(s[:]) },
		"sha384": func(b string) string { s := sha512.Sum384([]byte(b)); return string(s[:]) },
		"sha512": func(b string) string { s := sha512.Sum512([]byte(b)); return string(s[:]) },
	}
	tests := []struct {
		ask, alg    string
		off, length int64
		block       uint32
	}{
		{"md5", "md5", 0, 0, 0},
		{"sha1,md5", "sha1", 0, 0, 0},
		{"unknown,sha224", "sha224", 10, 0, 0},
		{"sha256", "sha256", 100, 1000, 0},
		{"sha384", "sha384", 0, 1 << 60, 0},
		{"sha512", "sha512", 0, 0, 1000},
		{"sha256", "sha256", 7, 100_000, 4096},
		{"sha256", "sha256", 250_000, 0, 0},
		{"sha256", "sha256", 300_000, 10, 0},
	}
	for _, test := range tests {
		rest := data[min(test.off, int64(len(data))):]
		if test.length > 0 {
			rest = rest[:min(test.length, int64(len(rest)))]
		}
		block := int(test.block)
		if block == 0 {
			block = max(1, len(rest))
		}
		want := ""
		for b := range slices.Chunk([]byte(rest), block) {
			want += sums[test.alg](string(b))
		}
		if rest == "" {
			want = sums[test.alg]("")
		}
		for i, packet := range [][]byte{
			wire.AppendCheckFileHandle(nil, p.n(), h, test.ask, test.off, test.length, test.block),
			wire.AppendCheckFileName(nil, p.n(), "/file", test.ask, test.off, test.length, test.block),
			wire.AppendCheckFile(nil, p.n(), h, test.ask, test.off, test.length, test.block),
		} {
			p.id = wireID(packet)
			r := p.ask(packet)
			// paramiko skips a string, and takes the next one for the algorithm.
			if named := bytes.HasPrefix(r.Extended, []byte("\x00\x00\x00\x0acheck-file\x00")); named != (i == 2) {
				t.Errorf("%+v: the reply is %.20q", test, r.Extended)
			}
			alg, got, err := r.CheckFile()
			if err != nil || string(alg) != test.alg || string(got) != want {
				t.Errorf("%+v: %s, %d bytes of hashes, %v (%v %q); want %d", test, alg, len(got), err, r.Status, r.Message, len(want))
			}
		}
	}
	p.want(wire.Unsupported, wire.AppendCheckFileHandle(nil, p.n(), h, "crc32,md4", 0, 0, 0))
	p.want(wire.Unsupported, wire.AppendCheckFileHandle(nil, p.n(), h, "", 0, 0, 0))
	p.want(wire.BadMessage, wire.AppendCheckFileHandle(nil, p.n(), h, "md5", 0, 0, 255))
	p.want(wire.NoSuchFile, wire.AppendCheckFileName(nil, p.n(), "none", "md5", 0, 0, 0))
	p.want(wire.Failure, wire.AppendCheckFileName(nil, p.n(), "/", "md5", 0, 0, 0))
	p.want(wire.Failure, wire.AppendCheckFileHandle(nil, p.n(), "none", "md5", 0, 0, 0))
	w := p.open("file", wire.OpenWrite)
	p.want(wire.PermissionDenied, wire.AppendCheckFileHandle(nil, p.n(), w, "md5", 0, 0, 0))
	// More hashes than a reply can hold: 16 MiB in blocks of 256 bytes.
	var a wire.Attrs
	a.SetSize(16 << 20)
	p.want(wire.OK, wire.AppendFsetstat(nil, p.n(), w, a))
	p.want(wire.Failure, wire.AppendCheckFileHandle(nil, p.n(), h, "sha256", 0, 0, 256))
	if r := p.ask(wire.AppendCheckFileHandle(nil, p.n(), h, "sha256", 0, 7680*256, 256)); r.Type != wire.TypeExtendedReply {
		t.Errorf("as many as can be: %v", r.Type)
	}
}

// The number of hashes is bounded for the longest possible file.
func TestCheckFileLongest(t *testing.T) {
	d := newDirectServer(t, nil)
	c := &d.connect().userConn
	for _, size := range []int64{math.MaxInt64, math.MaxInt64 - 254, math.MaxInt64 - 255, 1 << 62, maxHashes/sha256.Size*256 + 1} {
		_, err := c.hashFile(t.Context(), longFile{size: size}, &wire.Request{BlockSize: 256}, sha256.New())
		if !errors.Is(err, errManyHashes) {
			t.Errorf("a file of %d bytes: %v", size, err)
		}
	}
}

// A longFile reports a size, but cannot be read.
type longFile struct {
	store.Handle
	size int64
}

func (f longFile) Stat() (fs.FileInfo, error) { return longInfo{size: f.size}, nil }

func (longFile) ReadAt([]byte, int64) (int, error) { return 0, io.ErrUnexpectedEOF }

type longInfo struct {
	fs.FileInfo
	size int64
}

func (i longInfo) Size() int64 { return i.size }

// A file is not copied onto itself under another name. Only as many bytes of a file are copied as it
// had at the start.
func TestCopyDataSameFile(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, tree := range []store.Tree{store.Mem(1 << 20), localdir.New(root)} {
		for _, hidden := range []bool{false, true} {
			p := newTestSession(t, func(_ *Server, a *Account) { a.Tree, a.Hidden = tree, hidden })
			a := fmt.Sprint("a", hidden)
			p.put(a, "data")
			p.want(wire.OK, wire.AppendHardlink(nil, p.n(), "/"+a, "/b"+a))
			from, to := p.open(a, wire.OpenRead), p.open("b"+a, wire.OpenWrite)
			for _, length := range []int64{0, 3, 1 << 40} {
				r := p.ask(wire.AppendCopyData(nil, p.n(), from, 0, length, to, 4))
				if r.Status != wire.Failure || string(r.Message) != "Failure" {
					t.Errorf("%T, hidden %v: a copy of a file to itself: %v %q", tree, hidden, r.Status, r.Message)
				}
			}
			p.wantFile(a, "data")
		}
	}
}

// If a file grows while it is copied, only its original length is copied.
func TestCopyDataGrows(t *testing.T) {
	d := newDirectServer(t, nil)
	c := &d.connect().userConn
	grown := &growingFile{}
	from := &sessionHandle{conn: c, name: "from", file: grown}
	to := &sessionHandle{conn: c, name: "to", file: grown}
	for _, test := range []struct{ ask, want int64 }{{0, 10}, {5, 5}, {11, 10}} {
		grown.size = 10
		q := &wire.Request{Length: test.ask}
		n, err := copyLength(from, to, q)
		if err == nil {
			err = copyRange(t.Context(), from, to, q, n)
		}
		if n != test.want || grown.size != 10+test.want || err != nil {
			t.Errorf("asked for %d: %d bytes, the file has %d, %v", test.ask, n, grown.size, err)
		}
	}
}

// A growingFile describes itself as a different file at each Stat, and grows with each write.
type growingFile struct {
	store.Handle
	size int64
}

func (f *growingFile) Stat() (fs.FileInfo, error) { return longInfo{size: f.size}, nil }

func (f *growingFile) ReadAt(p []byte, off int64) (int, error) {
	return int(min(int64(len(p)), f.size-off)), nil
}

func (f *growingFile) WriteAt(p []byte, _ int64) (int, error) {
	f.size += int64(len(p))
	return len(p), nil
}

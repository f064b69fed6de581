package sftp

import (
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"hash"
	"io"
	"io/fs"
	"strings"

	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

const (
	// hashStep is how many bytes a connection may hash before it lets others take their turn.
	hashStep = 1 << 20

	// maxHashes is the largest total size of the hashes in one reply, in bytes.
	maxHashes = 240 << 10
)

// hashes are the algorithms that the server supports for check-file
// (draft-ietf-secsh-filexfer-extensions-00, section 3). The client has to choose a strong one: md5
// and sha1 detect accidental corruption, but not an attack.
var hashes = map[string]func() hash.Hash{
	"md5":    md5.New,
	"sha1":   sha1.New,
	"sha224": sha256.New224,
	"sha256": sha256.New,
	"sha384": sha512.New384,
	"sha512": sha512.New,
}

// chooseHash returns the first known algorithm of a comma-separated list.
func chooseHash(list []byte) (name string, h hash.Hash) {
	for name := range strings.SplitSeq(string(list), ",") {
		if begin := hashes[name]; begin != nil {
			return name, begin()
		}
	}
	return "", nil
}

var errManyHashes = errors.New("more hashes than a reply can hold")

// checkFile answers the extensions check-file-handle, check-file-name, and check-file.
func (s *session) checkFile(q *wire.Request) error {
	name, h := chooseHash(q.Algorithms)
	if h == nil {
		return errors.ErrUnsupported
	}
	s.flush() // send earlier replies now, because hashing may take a while
	sums, err := s.checkSums(q, h)
	if err != nil {
		return err
	}
	s.room(smallReply + len(sums))
	if q.Extension == wire.ExtCheckFile {
		s.out.b = wire.AppendOldCheckFileReply(s.out.b, q.ID, name, sums)
	} else {
		s.out.b = wire.AppendCheckFileReply(s.out.b, q.ID, name, sums)
	}
	return errAnswered
}

func (s *session) checkSums(q *wire.Request, h hash.Hash) ([]byte, error) {
	if q.Extension != wire.ExtCheckFileName {
		open := s.handles.file(q.Handle)
		switch {
		case open == nil:
			return nil, errNoHandle
		case open.file == nil:
			return nil, fs.ErrPermission
		}
		return s.conn.hashFile(s.ctx, open.file, q, h)
	}
	name, err := s.conn.paths.resolve(q.Path)
	if err != nil {
		return nil, err
	}
	f, err := s.conn.openToHash(s.ctx, name)
	if err != nil {
		return nil, s.conn.audit("check-file", name, "", err)
	}
	defer f.Close()
	sums, err := s.conn.hashFile(s.ctx, f, q, h)
	return sums, s.conn.audit("check-file", name, "", err)
}

// openToHash opens the named file for reading. If it is a hidden upload, openToHash first publishes
// it.
func (c *userConn) openToHash(ctx context.Context, name string) (store.Handle, error) {
	if err := c.publishPending(name); err != nil {
		return nil, err
	}
	return c.tree.OpenFile(ctx, name, store.Access{Read: true})
}

// hashFile returns the hashes that q requests for the file f, concatenated.
func (c *userConn) hashFile(ctx context.Context, f store.Handle, q *wire.Request, h hash.Hash) (sums []byte, err error) {
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	length := max(0, fi.Size()-q.Offset)
	if q.Length > 0 {
		length = min(length, q.Length)
	}
	block := length
	if q.BlockSize > 0 {
		block = int64(q.BlockSize)
		if length > maxHashes/int64(h.Size())*block {
			return nil, errManyHashes
		}
	}
	if length == 0 {
		return h.Sum(nil), nil
	}
	r := io.NewSectionReader(f, q.Offset, length)
	for length > 0 {
		h.Reset()
		n, err := c.hashBlock(ctx, r, min(block, length), h)
		if err != nil {
			return nil, err
		}
		if len(sums) > maxHashes-h.Size() { // a second check of the bound, in case the first one is wrong
			return nil, errManyHashes
		}
		sums = h.Sum(sums)
		if n < min(block, length) { // the file has been truncated meanwhile
			break
		}
		length -= n
	}
	return sums, nil
}

// hashBlock hashes at most n bytes of r. It waits for its turn among the hash computations of all
// connections.
func (c *userConn) hashBlock(ctx context.Context, r io.Reader, n int64, h hash.Hash) (done int64, err error) {
	buf := bigBuffers.Get().(*[bigBuffer]byte)
	defer bigBuffers.Put(buf)
	for done < n {
		step := min(n-done, hashStep)
		m, err := c.hashInTurn(ctx, io.LimitReader(r, step), buf[:], h)
		done += m
		if err != nil || m < step {
			return done, err
		}
	}
	return done, nil
}

func (c *userConn) hashInTurn(ctx context.Context, r io.Reader, buf []byte, h hash.Hash) (int64, error) {
	end, err := c.server.shared.hashing.take(ctx, c.hashes)
	if err != nil {
		return 0, err
	}
	defer end()
	c.touch()
	return io.CopyBuffer(h, r, buf)
}

package web

import (
	"archive/tar"
	"archive/zip"
	"encoding/binary"
	"io"
	"io/fs"
	"math"
	"strings"
	"time"
)

// A tarArchive writes the POSIX format: ustar, with pax records for values that do not fit into it.
type tarArchive struct{ *tar.Writer }

func newTar(w io.Writer) archiver { return tarArchive{tar.NewWriter(w)} }

func (t tarArchive) add(name string, mode fs.FileMode, modified time.Time, size int64) (io.Writer, error) {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(mode.Perm()), ModTime: modified, Size: size}
	if strings.HasSuffix(name, "/") {
		h.Typeflag = tar.TypeDir
	}
	return t, t.WriteHeader(h)
}

// A zipArchive stores files uncompressed, but declares them as compressed (DEFLATE): only then can
// programs that read the archive as a stream find the end of a file.
type zipArchive struct{ *zip.Writer }

func newZip(w io.Writer) archiver {
	z := zip.NewWriter(w)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return storedBlocks{w}, nil })
	return zipArchive{z}
}

func (z zipArchive) add(name string, mode fs.FileMode, modified time.Time, _ int64) (io.Writer, error) {
	switch { // the zip format stores only dates from 1980 to 2107
	case modified.Year() < 1980:
		modified = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
	case modified.Year() > 2100:
		modified = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	h := &zip.FileHeader{Name: name, Modified: modified, Method: zip.Deflate}
	if strings.HasSuffix(name, "/") {
		mode |= fs.ModeDir
	}
	h.SetMode(mode)
	return z.CreateHeader(h)
}

// storedBlocks writes DEFLATE blocks without compression (RFC 1951 §3.2.4).
type storedBlocks struct{ w io.Writer }

func (s storedBlocks) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		part := p[:min(len(p), math.MaxUint16)]
		if err := s.head(0, uint16(len(part))); err != nil {
			return n, err
		}
		wrote, err := s.w.Write(part)
		n += wrote
		if err != nil {
			return n, err
		}
		p = p[len(part):]
	}
	return n, nil
}

// Close writes the last block, which is empty.
func (s storedBlocks) Close() error { return s.head(1, 0) }

func (s storedBlocks) head(last byte, n uint16) error {
	b := [5]byte{last}
	binary.LittleEndian.PutUint16(b[1:], n)
	binary.LittleEndian.PutUint16(b[3:], ^n)
	_, err := s.w.Write(b[:])
	return err
}

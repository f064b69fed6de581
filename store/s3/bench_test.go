package s3

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/store/treecopy"
)

// minioAlone returns a bare client of package minio for the server of a store.
func minioAlone(b *testing.B, s *Store) *minio.Client {
	b.Helper()
	c, err := minio.New(s.Endpoint().Host, &minio.Options{Creds: credentials.NewStaticV4(testKeys.ID, testKeys.Secret, ""), Region: "us-east-1"})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// BenchmarkGet copies a file from versitygw over loopback to a local file, as haul get does, and
// compares that with FGetObject of package minio.
func BenchmarkGet(b *testing.B) {
	const size = 256 << 20
	s, dir := newStore(b, "", startGateway(b)), b.TempDir()
	put(b, s, "f", randomBytes(size), store.Create{Size: size})
	alone := minioAlone(b, s)
	root, err := os.OpenRoot(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer root.Close()
	for name, get := range map[string]func() error{
		"haul": func() error {
			_, err := treecopy.Copy(b.Context(), treecopy.Job{Sources: []treecopy.Source{{Tree: s, Name: "f"}}, To: localdir.New(root), Target: "f"})
			return err
		},
		"minio": func() error {
			return alone.FGetObject(b.Context(), "b12", "f", filepath.Join(dir, "f"), minio.GetObjectOptions{})
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				if err := get(); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := os.Remove(filepath.Join(dir, "f")); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}

// BenchmarkReadInOrder reads a file from versitygw over loopback in order, as a server without a
// cache does, and compares that with package minio alone.
func BenchmarkReadInOrder(b *testing.B) {
	const size = 64 << 20
	s := newStore(b, "", startGateway(b))
	put(b, s, "f", randomBytes(size), store.Create{Size: size})
	alone := minioAlone(b, s)
	for name, open := range map[string]func() (io.Reader, io.Closer, error){
		"haul": func() (io.Reader, io.Closer, error) {
			f, err := s.Open(b.Context(), "f")
			return io.NewSectionReader(f, 0, size), f, err
		},
		"minio": func() (io.Reader, io.Closer, error) {
			f, err := alone.GetObject(b.Context(), "b12", "f", minio.GetObjectOptions{})
			return f, f, err
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			buf := make([]byte, 256<<10)
			for b.Loop() {
				r, c, err := open()
				if err != nil {
					b.Fatal(err)
				}
				n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{r}, buf)
				if n != size || err != nil {
					b.Fatal(n, err)
				}
				if err := c.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

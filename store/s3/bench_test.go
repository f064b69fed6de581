package s3

import (
	"io"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/haul-project/haul/store"
)

// BenchmarkReadInOrder reads a file of versitygw over loopback in order, as a server does that
// has no cache, beside package minio alone.
func BenchmarkReadInOrder(b *testing.B) {
	const size = 64 << 20
	s := newStore(b, "", startGateway(b))
	put(b, s, "f", randomBytes(size), store.Create{Size: size})
	alone, err := minio.New(s.Endpoint(), &minio.Options{Creds: credentials.NewStaticV4(testKeys.ID, testKeys.Secret, "")})
	if err != nil {
		b.Fatal(err)
	}
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

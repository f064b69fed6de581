package remote

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/store/s3"
)

// connectS3 returns the bucket of a location. It finds the server and the keys in the same places
// as the AWS tools.
func (d webDialer) connectS3(l Location) (s3Server, error) {
	o := s3.Config{UserAgent: d.cfg.UserAgent, Conns: d.cfg.Conns, Parts: d.cfg.Conns}
	var err error
	if o.TLS, err = d.cfg.Web.TLS(); err != nil {
		return s3Server{}, err
	}
	if d.cfg.Web.Insecure {
		d.notices.printf("WARNING: --insecure: the identity of the S3 server is not checked; anybody on the way can read and change all that is sent")
	}
	o.Waiting = func(err error, pause time.Duration) {
		if !d.cfg.Quiet && pause >= minNotedPause {
			d.notices.print("wait s3 "+l.bucket, fmt.Sprintf("note: s3://%s: %v; haul waits before it tries again, %v this time", l.bucket, err, pause.Round(time.Second)))
		}
	}
	c, err := s3.New(l.bucket, "", o)
	if err != nil {
		return s3Server{}, failure.Usage.Errorf("location %v: %w", l, err)
	}
	if err := d.cfg.Web.checkPin(c.Endpoint(), "set AWS_ENDPOINT_URL to"); err != nil {
		_ = c.Close()
		return s3Server{}, err
	}
	return s3Server{c}, nil
}

// An s3Server is a bucket. It has no modes, links or owners, and renames a file by copying it.
type s3Server struct{ *s3.Store }

// Path returns the name of a location in the bucket.
func (s3Server) Path(_ context.Context, l Location) (string, error) { return l.webName(), nil }

// Source returns the location's place in the bucket.
func (b s3Server) Source(_ context.Context, l Location) (Place, error) {
	return Place{Tree: b.Store, Name: inRoot("/" + l.Path)}, nil
}

// Target does the same as Source. In addition, if the user typed the name of a directory, Target
// assumes that the directory exists.
func (b s3Server) Target(_ context.Context, l Location, several bool) (Place, error) {
	p, dir := targetOf(l, several)
	p.Tree = s3Tree{b.Store, dir}
	return p, nil
}

// List lists a directory. It always includes details.
func (b s3Server) List(ctx context.Context, dir string, _ bool) ([]fs.DirEntry, error) {
	return listAll(b.OpenDir(ctx, dir))
}

// An s3Tree is a bucket as the target of a copy.
type s3Tree struct {
	*s3.Store
	dir string // name of the target, if the user typed it as a directory; otherwise ""
}

// Stat describes a file or directory. It assumes that the target directory exists.
func (t s3Tree) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	if name == t.dir {
		return assumedDir(path.Base(name)), nil
	}
	return t.Store.Stat(ctx, name)
}

// Lstat is the same as Stat, because S3 has no symbolic links.
func (t s3Tree) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	return t.Stat(ctx, name)
}

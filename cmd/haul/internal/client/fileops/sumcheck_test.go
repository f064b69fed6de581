package fileops

import (
	"context"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
	"github.com/haul-project/haul/sftp/sftpclient"
	"github.com/haul-project/haul/store"
)

// lostFiles is the place of a server whose connection is lost.
type lostFiles struct{ sumPlace }

func (lostFiles) open(context.Context, string, fs.FileInfo) (store.File, error) {
	return nil, sftpclient.ErrConnectionLost
}

// A check that loses its server stops, prints its conclusion, and tries no other list.
func TestSumCheckLosesServer(t *testing.T) {
	var said []string
	var out strings.Builder
	s := newSummer(SumConfig{Say: func(err error) { said = append(said, err.Error()) }}, &out)
	list := strings.Repeat(strings.Repeat("0", 64)+"  a\n", 3)
	l := sumList{"list", func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(list)), nil }}
	more := s.checkList(t.Context(), l, sumBase{lostFiles{}, func(name string) string { return name }})
	err := s.err()
	if want := []string{sftpclient.ErrConnectionLost.Error(), "WARNING: 1 listed file could not be read"}; more || !slices.Equal(said, want) || out.String() != "a: FAILED open or read\n" {
		t.Errorf("%v, %q, %q", more, said, out.String())
	}
	if !remote.IsLost(err) {
		t.Errorf("the failure is %v", err)
	}
}

package treecopy

import (
	"context"
	"io/fs"

	"github.com/haul-project/haul/store"
)

// A tree is one of the two sides of a copy, with its capabilities.
type tree struct {
	store.Tree
	can store.Capabilities
}

func newTree(t store.Tree) *tree { return &tree{t, store.CapabilitiesOf(t)} }

// openDescribed opens a file that fi, from a listing or Lstat of the tree, has just described.
func (t *tree) openDescribed(ctx context.Context, name string, fi fs.FileInfo) (store.File, error) {
	if t.can.OpenListed != nil {
		return t.can.OpenListed(ctx, name, fi)
	}
	return t.Open(ctx, name)
}

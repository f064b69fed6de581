package storetest

import (
	"testing"

	"github.com/haul-project/haul/store"
)

// RunTree checks that trees keep the contract of [store.Tree]. Each test gets an
// empty one from open, which cleans up by t.Cleanup, and needs room for 8 MiB.
// That of [store.Store] is [Run]'s business.
func RunTree(t *testing.T, open func(t *testing.T) store.Tree) { RunTreeExcept(t, open, nil) }

// RunTreeExcept is [RunTree] for a tree that cannot keep all of the contract; see
// [RunExcept]. Tests of single calls that are errors.ErrUnsupported need not be left out.
func RunTreeExcept(t *testing.T, open func(t *testing.T) store.Tree, lacks map[string]string) {
	run(t, open, []contractTest[store.Tree]{
		{"Mkdir", testMkdir},
		{"Remove", testRemove},
		{"RemoveDir", testRemoveDir},
		{"Rename", testRename},
		{"RenameDirectory", testRenameDirectory},
		{"OneRenameWins", testOneRenameWins},
		{"Root", testRoot},
		{"Link", testLink},
		{"Symlink", testSymlink},
		{"LinksOutside", testLinksOutside},
		{"LinkLoop", testLinkLoop},
		{"Access", testAccess},
		{"BadAccess", testBadAccess},
		{"OpenNotRegular", testOpenNotRegular},
		{"InPlace", testInPlace},
		{"InPlaceAtRandom", testInPlaceAtRandom},
		{"Append", testAppend},
		{"WriteInPlaceConcurrently", testWriteInPlaceConcurrently},
		{"HandleOutlivesName", testHandleOutlivesName},
		{"HandleErrors", testHandleErrors},
		{"OpenedBefore", testOpenedBefore},
		{"SetMode", testSetMode},
		{"SetTimes", testSetTimes},
		{"SetSize", testSetSize},
		{"SetNothing", testSetNothing},
		{"SetLinkAttr", testSetLinkAttr},
		{"OpenDir", testOpenDir},
		{"OpenDirWhileChanging", testOpenDirWhileChanging},
		{"Space", testSpace},
		{"TreeNames", testTreeNames},
		{"TreeErrors", testTreeErrors},
		{"Details", testDetails},
		{"AtOnce", testAtOnce},
	}, lacks)
}

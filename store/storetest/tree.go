package storetest

import (
	"testing"

	"github.com/haul-project/haul/store"
)

// RunTree checks that a tree behaves as [store.Tree] documents. For each test it calls open, which
// must return an empty tree, and register its cleanup with t.Cleanup. The tree needs room for 8
// MiB. RunTree does not check the behavior that [store.Store] documents: use [Run] for that, which
// also explains lacks. A test of a single method need not be listed in lacks if the method returns
// errors.ErrUnsupported.
func RunTree(t *testing.T, open func(t *testing.T) store.Tree, lacks ...string) {
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

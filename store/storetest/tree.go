package storetest

import (
	"testing"

	"github.com/haul-project/haul/store"
)

// RunTree checks that a tree keeps the contract of [store.Tree]. For each test, open returns an
// empty tree, and registers its cleanup by t.Cleanup. A tree needs room for 8 MiB. RunTree does not
// check the contract of [store.Store]; [Run] does, and also describes lacks. A test of a single call that
// returns errors.ErrUnsupported need not be left out.
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

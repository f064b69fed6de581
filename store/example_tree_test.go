package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"

	"github.com/haul-project/haul/store"
)

// This example uses a tree as an SFTP server does. The tree is in memory.
func ExampleTree() {
	tree := store.Mem(1 << 20)
	ctx := context.Background()

	if err := tree.Mkdir(ctx, "logs", 0o750); err != nil {
		log.Fatal(err)
	}
	h, err := tree.OpenFile(ctx, "logs/today", store.Access{Append: true, Create: true})
	if err != nil {
		log.Fatal(err)
	}
	for _, line := range []string{"one\n", "two\n"} {
		if _, err := h.WriteAt([]byte(line), 0); err != nil { // written at the end, whatever the offset
			log.Fatal(err)
		}
	}
	if err := h.SetAttr(store.Attr{Mode: new(fs.FileMode(0o640))}); err != nil {
		log.Fatal(err)
	}
	if err := h.Close(); err != nil {
		log.Fatal(err)
	}
	if err := tree.Rename(ctx, "logs/today", "logs/yesterday", false); err != nil {
		log.Fatal(err)
	}

	// List a directory in pieces, as a client requests them.
	dir, err := tree.OpenDir(ctx, "logs")
	if err != nil {
		log.Fatal(err)
	}
	defer dir.Close()
	for entries := make([]fs.FileInfo, 100); ; {
		n, err := dir.Next(entries)
		if err == io.EOF {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		for _, fi := range entries[:n] {
			fmt.Println(fi.Mode(), fi.Size(), fi.Name())
		}
	}
	// Output:
	// -rw-r----- 8 yesterday
}

// This example accepts files that nobody can read back.
func ExampleUploadOnly() {
	tree, ctx := store.Mem(1<<20), context.Background()
	box := store.UploadOnly(tree)
	put(box, "report", "all is well")

	_, err := box.Open(ctx, "report")
	fmt.Println(err)
	_, err = box.Create(ctx, "report", store.Create{})
	fmt.Println(errors.Is(err, fs.ErrExist))
	fi, err := tree.Stat(ctx, "report")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(fi.Size())
	// Output:
	// open report: permission denied: the store is for uploads only
	// true
	// 11
}

package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"

	"github.com/haul-project/haul/store"
)

func ExampleDir() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	root, err := os.OpenRoot(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer root.Close()
	st, ctx := store.Dir(root), context.Background()

	// What a process left behind that died in the middle of an upload.
	if _, err := st.Sweep(ctx); err != nil {
		log.Print(err)
	}

	u, err := st.Create(ctx, "motd", store.Create{Exclusive: true})
	if err != nil {
		log.Fatal(err)
	}
	defer u.Close() // discards, unless committed
	if _, err := io.WriteString(io.NewOffsetWriter(u, 0), "Welcome.\n"); err != nil {
		log.Fatal(err)
	}

	_, err = st.Stat(ctx, "motd")
	fmt.Println("there before commit:", !errors.Is(err, fs.ErrNotExist))
	if err := u.Commit(); err != nil {
		log.Fatal(err)
	}

	f, err := st.Open(ctx, "motd")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	if _, err := io.Copy(os.Stdout, io.NewSectionReader(f, 0, 1<<20)); err != nil {
		log.Fatal(err)
	}

	_, err = st.Open(ctx, "../motd")
	fmt.Println(err)
	// Output:
	// there before commit: false
	// Welcome.
	// open ../motd: invalid argument
}

func ExampleMem() {
	st, ctx := store.Mem(1<<20), context.Background() // at most 1 MiB

	u, err := st.Create(ctx, "boot/menu", store.Create{})
	if err != nil {
		log.Fatal(err)
	}
	defer u.Close()
	if _, err := u.WriteAt([]byte("world"), 6); err != nil { // in any order
		log.Fatal(err)
	}
	if _, err := u.WriteAt([]byte("hello "), 0); err != nil {
		log.Fatal(err)
	}
	if err := u.Commit(); err != nil {
		log.Fatal(err)
	}

	fi, err := st.Stat(ctx, "boot/menu")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(fi.Name(), fi.Size())

	_, err = st.Create(ctx, "image", store.Create{Size: 2 << 20})
	fmt.Println(errors.Is(err, store.ErrNoSpace), err)
	// Output:
	// menu 11
	// true create image: no space left in the store: limit of 1048576 bytes reached
}

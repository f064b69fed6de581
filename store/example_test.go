package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"strings"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
)

// This example stores a file in a directory. The file appears under its name when it is complete.
func Example() {
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
	st, ctx := localdir.New(root), context.Background()

	// Remove files left behind by a process that died during an upload.
	if _, err := st.Sweep(ctx); err != nil {
		log.Print(err)
	}

	u, err := st.Create(ctx, "motd", store.Create{Exclusive: true})
	if err != nil {
		log.Fatal(err)
	}
	defer u.Close() // discards the upload, unless it was committed
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

// This example receives uploads as bytes, without files.
func ExampleSink() {
	st, ctx := store.Sink(64<<20, func(name string, f store.File) {
		defer f.Close() // releases its bytes, which count against the limit
		fi, err := f.Stat()
		if err != nil {
			log.Fatal(err)
		}
		b := make([]byte, fi.Size())
		if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
			log.Fatal(err)
		}
		fmt.Printf("%s: %d bytes: %s\n", name, len(b), b)
	}), context.Background()

	// An upload, as a server would make it.
	u, err := st.Create(ctx, "reports/42", store.Create{})
	if err != nil {
		log.Fatal(err)
	}
	defer u.Close()
	if _, err := u.WriteAt([]byte("all is well"), 0); err != nil {
		log.Fatal(err)
	}
	if err := u.Commit(); err != nil {
		log.Fatal(err)
	}
	// Output: reports/42: 11 bytes: all is well
}

// menus answers requests with its own content, and accepts no uploads.
type menus struct{ store.Store }

func (menus) Open(_ context.Context, name string) (store.File, error) {
	host, ok := strings.CutPrefix(name, "menu/")
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return store.FromBytes(name, []byte("boot "+host+"\n")), nil
}

func ExampleFromBytes() {
	var st store.Store = menus{store.Layers()} // Layers of no stores contains no files
	for _, name := range []string{"menu/rack7", "kernel"} {
		f, err := st.Open(context.Background(), name)
		if err != nil {
			fmt.Println(err)
			continue
		}
		defer f.Close()
		if _, err := io.Copy(os.Stdout, io.NewSectionReader(f, 0, 1<<20)); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// boot rack7
	// open kernel: file does not exist
}

// This example searches the files of one site before the files for all sites, and finds them
// however firmware spells their names.
func ExampleFoldCase() {
	site, common, ctx := store.Mem(0), store.Mem(0), context.Background()
	put(site, "Boot/Menu", "this site's menu")
	put(common, "Boot/Menu", "the usual menu")
	put(common, "Boot/Kernel", "the usual kernel")

	st, err := store.FoldCase(store.Layers(site, common))
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"BOOT/MENU", "boot/kernel"} {
		f, err := st.Open(ctx, name)
		if err != nil {
			log.Fatal(err)
		}
		defer f.Close()
		b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<20))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s\n", name, b)
	}
	// Output:
	// BOOT/MENU: this site's menu
	// boot/kernel: the usual kernel
}

func put(st store.Store, name, content string) {
	u, err := st.Create(context.Background(), name, store.Create{})
	if err != nil {
		log.Fatal(err)
	}
	defer u.Close()
	if _, err := u.WriteAt([]byte(content), 0); err != nil {
		log.Fatal(err)
	}
	if err := u.Commit(); err != nil {
		log.Fatal(err)
	}
}

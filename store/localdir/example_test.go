package localdir_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
)

// Write a file into a directory. It has its name when it is whole, and nothing outside of the
// directory can be reached.
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
	ctx, files := context.Background(), localdir.New(root)

	u, err := files.Create(ctx, "etc/motd", store.Create{Parents: true})
	if err != nil {
		log.Fatal(err)
	}
	defer u.Close()
	if _, err := u.WriteAt([]byte("be well\n"), 0); err != nil {
		log.Fatal(err)
	}
	_, err = files.Stat(ctx, "etc/motd")
	fmt.Println("before:", errors.Is(err, fs.ErrNotExist))
	if err := u.Commit(); err != nil {
		log.Fatal(err)
	}
	f, err := files.Open(ctx, "etc/motd")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 100))
	fmt.Printf("after: %q, %v\n", text, err)
	_, err = files.Open(ctx, "../etc/passwd")
	fmt.Println(err)
	// Output:
	// before: true
	// after: "be well\n", <nil>
	// open ../etc/passwd: invalid argument
}

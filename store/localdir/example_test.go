package localdir_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
)

// Nothing outside the directory can be reached: not by a name, not by a link that another program
// has made, and not by an upload. For the stages of an upload, see package store.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Symlink(os.TempDir(), filepath.Join(dir, "out")); err != nil {
		log.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer root.Close()
	ctx, files := context.Background(), localdir.New(root)

	_, err = files.Open(ctx, "../etc/passwd")
	fmt.Println(err)
	_, err = files.Stat(ctx, "out")
	fmt.Println("through a link:", errors.Is(err, fs.ErrPermission))
	_, err = files.Create(ctx, "out/passwd", store.Create{})
	fmt.Println("upload through a link:", errors.Is(err, fs.ErrPermission))
	// Output:
	// open ../etc/passwd: invalid argument
	// through a link: true
	// upload through a link: true
}

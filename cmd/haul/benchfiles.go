package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/tftp/load"
)

// maxBenchFiles is how many files one command makes.
const maxBenchFiles = load.MaxNames

const benchFilesHelp = `Write files with haul's test content into a directory.

"haul bench tftp --pattern" compares this content with what a server sends. It depends
on the offset alone: files of one size are equal, on all machines.`

const benchFilesExamples = `  haul bench files /srv/tftp --size 1MB --count 100
  haul bench files /srv/tftp --size 64k --count 1 --name small`

func newBenchFiles() *cobra.Command {
	var count int
	var name string
	size := console.ByteSize(1 << 20)
	cmd := &cobra.Command{
		Use:     "files DIR",
		Short:   "Make files for a benchmark",
		Long:    benchFilesHelp,
		Example: benchFilesExamples,
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, dirs []string) error {
			switch {
			case count < 1 || count > maxBenchFiles:
				return failure.Usage.Errorf("--count %d: must be 1 to %d", count, maxBenchFiles)
			case count > 1 && !strings.Contains(name, "{}"):
				return failure.Usage.Errorf("--name %q: several files need a {} in it, for their number", name)
			case name == "" || !filepath.IsLocal(name):
				return failure.Usage.Errorf("--name %q: must be a name inside the directory", name)
			}
			for i := range count {
				path := filepath.Join(dirs[0], strings.ReplaceAll(name, "{}", strconv.Itoa(i)))
				if err := writeBenchFile(path, int64(size)); err != nil {
					return failure.Local.Wrap(err)
				}
			}
			return nil
		},
	}
	cmd.Flags().Var(&size, "size", "size of each file")
	cmd.Flags().IntVar(&count, "count", 1, "write `N` files")
	cmd.Flags().StringVar(&name, "name", "f{}", "`NAME` of each file, in which \"{}\" stands for its number")
	return cmd
}

// writeBenchFile writes one file of test content.
func writeBenchFile(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, load.Pattern(size)); err != nil {
		_ = f.Close()
		return fmt.Errorf("write %s: %w", path, err)
	}
	return f.Close()
}

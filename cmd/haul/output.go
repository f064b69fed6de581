package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/failure"
)

// A checkedOutput is standard output that remembers whether a write failed. Help and
// most commands print without looking.
type checkedOutput struct {
	*os.File
	failed atomic.Pointer[error] // the first, an *fs.PathError
}

// Write implements [io.Writer].
func (c *checkedOutput) Write(p []byte) (int, error) {
	n, err := c.File.Write(p)
	if err != nil {
		c.failed.CompareAndSwap(nil, &err)
	}
	return n, err
}

// WriteString writes by Write.
func (c *checkedOutput) WriteString(s string) (int, error) { return c.Write([]byte(s)) }

// printFailure prints why a command has failed, and where to read more, or what helps.
func printFailure(out io.Writer, cmd *cobra.Command, err error) {
	printError(out, err)
	if exitCode(err) == exitUsage {
		fmt.Fprintf(out, "see: %s --help\n", cmd.CommandPath())
	}
	if text := adviceFor(err); text != "" {
		fmt.Fprintln(out, "haul: note:", text)
	}
}

// printError prints an error, or each of several, on a line of its own.
func printError(out io.Writer, err error) {
	if several := failure.Joined(err); len(several) > 0 {
		for _, err := range several {
			printError(out, err)
		}
		return
	}
	text := console.VisibleLines(err.Error())
	if errors.Is(err, context.Canceled) {
		text = strings.Replace(text, context.Canceled.Error(), "interrupted", 1)
	}
	fmt.Fprintln(out, "haul:", text)
}

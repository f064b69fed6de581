package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/haul-project/haul/internal/boot"
	"github.com/haul-project/haul/internal/bootload"
	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/internal/remote"
)

const benchBootHelp = `Act as many machines that boot at once, and report when they are up.

Each machine fetches the loader by TFTP and then the image by HTTP, as firmware does: in
a window of 4 blocks (edk2) or in lock-step (ipxe), with that firmware's timers; and the
image over one connection, continued by a range after a loss. Several --loader or --image
stand for one address with several servers behind it: a machine gets one of them, and
another one when it asks again. All machines must get the same bytes. Nothing is written
to disk.

All machines have the address of this host. A haul that serves more than 1000 requests a
second to them needs "haul serve --rate -1", and many connections --http-conns-per-source.

With --simulate nothing is sent: haul computes the same from figures that were measured,
for as many machines and replicas as you like. docs/scale.md explains how.

The exit code is 0 if all machines came up, 5 if no server answers, 130 if interrupted
(what was done until then is printed), and otherwise 1.`

const benchBootExamples = `  haul bench boot --machines 1000 --loader tftp://192.0.2.1/ipxe.efi --image http://192.0.2.1/root.img
  haul bench boot --machines 500 --arrival linear:2m --lost 2 --svg up.svg \
    --loader tftp://192.0.2.1/ipxe.efi --loader tftp://192.0.2.2/ipxe.efi \
    --image http://192.0.2.1:8080/root.img --image http://192.0.2.2:8080/root.img
  haul bench boot --simulate --machines 10000 --arrival linear:5m --replicas 3 --link 10 --image-size 60MB`

// errBenchBoot says that some machines did not come up. The report has the reasons.
var errBenchBoot = errors.New("some machines did not come up")

// bootFlags are the flags of "haul bench boot".
type bootFlags struct {
	config           bootload.Config
	loaders, images  []string
	arrival          string
	firmware         string
	lost             float64
	asJSON           bool
	svg              string
	simulate         bool
	sim              simulateFlags
	needsNoSimulate  []string
	needsSimulate    []string
	commonToBothRuns []string
}

func newBenchBoot() *cobra.Command {
	var b bootFlags
	cmd := &cobra.Command{
		Use:         "boot",
		Short:       "Boot many machines at once",
		Long:        benchBootHelp,
		Example:     benchBootExamples,
		Args:        args(cobra.NoArgs),
		Annotations: more("machines arrival loader image firmware lost json svg simulate replicas link image-size", "json", "sizes"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := b.resolve(cmd); err != nil {
				return err
			}
			err := b.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
			if err != nil {
				return fmt.Errorf("bench boot: %w", err)
			}
			return nil
		},
	}
	b.add(cmd)
	return cmd
}

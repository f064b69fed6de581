package main

import (
	"github.com/spf13/pflag"

	"github.com/haul-project/haul/internal/console"
)

const sizesHelp = `How sizes are written.

A SIZE on the command line is a whole number of bytes, or a whole number with a unit.
Upper and lower case mean the same.

  K, KiB   1,024                   KB   1,000
  M, MiB   1,048,576               MB   1,000,000
  G, GiB   1,073,741,824           GB   1,000,000,000
  T, TiB   1,099,511,627,776       TB   1,000,000,000,000

So --limit 20M is 20,971,520 bytes a second, and --limit 20MB is 20,000,000. dd, head,
split and others of coreutils read sizes in the same way.

haul prints sizes in kB, MB and GB of 1,000, 1,000,000 and 1,000,000,000 bytes. There
are three exceptions: "haul ls -h" and "haul df -h" print K, M and G of 1,024, as ls
and df do; "haul df" without -h prints KiB; and "haul user list" prints each limit as
an exact SIZE.

The lengths of packets (--blksize, --mtu, --trace-hex) are plain numbers of bytes.`

// sizeVar adds a flag that takes a size.
func sizeVar(flags *pflag.FlagSet, to *int64, name string, value int64, usage string) {
	*to = value
	flags.Var((*console.ByteSize)(to), name, usage)
}

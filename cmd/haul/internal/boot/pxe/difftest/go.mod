module github.com/haul-project/haul/cmd/haul/internal/boot/pxe/difftest

go 1.26.8

require (
	github.com/haul-project/haul v0.0.0
	github.com/insomniacslk/dhcp v0.0.0-20260901064844-234b97448fae
)

require (
	github.com/josharian/native v1.1.0 // indirect
	github.com/pierrec/lz4/v4 v4.1.14 // indirect
	github.com/u-root/uio v0.0.0-20230220225925-ffce2a382923 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/haul-project/haul => ../../../../../../

package proc

import "bytes"

// sectorSize is the unit of diskstats whatever the disk's own sectors are:
// Documentation/admin-guide/iostats.rst.
const sectorSize = 512

// Columns of /proc/diskstats.
const (
	diskName           = 2
	diskSectorsRead    = 5
	diskSectorsWritten = 9
)

// parseDiskstats returns the bytes that went from and to whole disks, unknown
// when it finds none.
//
// Each byte is to be counted once, so these are left out: partitions, whose disk
// is counted (those without one, as a Xen guest may have, are disks themselves);
// what is made of other devices (dm-, md, bcache, drbd, loop), whose bytes arrive
// there too; what lies in memory (ram, zram); and the hidden paths of an NVMe
// multipath disk.
func parseDiskstats(b []byte) (read, written Opt[uint64]) {
	disk := []byte(nil) // the last whole disk: its partitions follow it
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		f := bytes.Fields(line)
		if len(f) <= diskSectorsWritten {
			continue
		}
		name := f[diskName]
		if disk != nil && partitionOf(name, disk) || stacked(name) {
			continue
		}
		in, ok1 := parseCount(f[diskSectorsRead])
		out, ok2 := parseCount(f[diskSectorsWritten])
		if !ok1 || !ok2 {
			continue
		}
		disk = name
		read = Some(read.Or(0) + in.Or(0)*sectorSize)
		written = Some(written.Or(0) + out.Or(0)*sectorSize)
	}
	return read, written
}

// partitionOf tells whether name is disk and a number, with a "p" between when
// disk ends in a digit: disk_name(), block/genhd.c.
func partitionOf(name, disk []byte) bool {
	number, ok := bytes.CutPrefix(name, disk)
	if !ok || len(disk) == 0 {
		return false
	}
	if isDigit(disk[len(disk)-1]) {
		if number, ok = bytes.CutPrefix(number, []byte("p")); !ok {
			return false
		}
	}
	return allDigits(number)
}

func stacked(name []byte) bool {
	for _, prefix := range []string{"dm-", "md", "bcache", "drbd", "loop", "ram", "zram"} {
		if rest, ok := bytes.CutPrefix(name, []byte(prefix)); ok && len(rest) > 0 {
			return true
		}
	}
	// nvme0c1n1: path 1 of nvme0n1, drivers/nvme/host/multipath.c
	rest, ok := bytes.CutPrefix(name, []byte("nvme"))
	return ok && bytes.IndexByte(rest, 'c') >= 0
}

func isDigit(c byte) bool { return c-'0' <= 9 }

func allDigits(b []byte) bool {
	for _, c := range b {
		if !isDigit(c) {
			return false
		}
	}
	return len(b) > 0
}

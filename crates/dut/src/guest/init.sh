#!/bin/busybox sh
# The first process of a guest: loads the modules, runs what the lab hands over, and ends the guest.
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
# The last file of the image.
if [ ! -r /modules/order ]; then
    echo "weir-guest: not all of the image is there: the guest has too little memory"
    poweroff -f
fi
while read -r module; do
    insmod "/modules/$module.ko" || echo "weir-guest: no module $module"
done </modules/order
run=/sys/firmware/qemu_fw_cfg/by_name/opt/weir/run/raw
if [ -r "$run" ]; then
    sh "$run"
    echo "weir-guest: the function ended with code $?"
else
    echo "weir-guest: the lab handed nothing over"
fi
poweroff -f

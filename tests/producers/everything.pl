# An instrumented program that uses PCP::MMV.
#
#     perl everything.pl PATH CLUSTER FLAGS
#
# It sets every value, prints "ready", and lives until its standard input ends.
use strict;
use warnings;
use PCP::MMV;

my ($path, $cluster, $flags) = @ARGV;
my $colours = 3;
my @indoms = (
    [$colours, [0 => 'red', 1 => 'green', 5 => 'blue sky'], 'colours', 'Colours of the rainbow.'],
);
my @metrics = (
    ['paint.used', 1, MMV_TYPE_U64, MMV_INDOM_NULL, mmv_units(0, 0, 1, 0, 0, MMV_COUNT_ONE),
        MMV_SEM_COUNTER, 'paint', 'Pots of paint used.'],
    ['paint.level', 2, MMV_TYPE_DOUBLE, $colours, mmv_units(0, 1, 0, 0, MMV_TIME_MSEC, 0),
        MMV_SEM_INSTANT, 'level', 'Level of each pot.'],
    ['paint.name', 3, MMV_TYPE_STRING, $colours, mmv_units(0, 0, 0, 0, 0, 0),
        MMV_SEM_DISCRETE, 'name', 'Name on the pot.'],
    ['paint.debt', 4, MMV_TYPE_I32, MMV_INDOM_NULL, mmv_units(1, 0, 0, MMV_SPACE_MBYTE, 0, 0),
        MMV_SEM_INSTANT, 'debt', ''],
);
my $map = mmv_stats_init($path, $cluster, $flags, \@metrics, \@indoms);
die "mmv_stats_init failed\n" unless defined $map;
mmv_stats_set($map, 'paint.used', '', 12345678901);
mmv_stats_inc($map, 'paint.used', '');
mmv_stats_set($map, 'paint.level', 'green', 2 / 3);
mmv_stats_set_string($map, 'paint.name', 'blue sky', 'azure');
mmv_stats_set($map, 'paint.debt', '', -1024);
$| = 1;
print "ready\n";
1 while <STDIN>;
